"""The configuration as one frozen tree. Options, variables and documents are made from these models."""

from typing import Annotated, Literal, Self

from pydantic import Strict, model_validator

from afterword.config.model import PARALLEL, Context, KVType, MainGpu, ModelConfig, Parallel, SplitMode
from afterword.config.table_keys import Key, Table, key, keys_of
from afterword.config.values import (
    ApiKey,
    Bytes,
    Database,
    Directory,
    FileOrFunction,
    FilePath,
    GpuLayers,
    HttpUrl,
    KeepAlive,
    Memory,
    RedisUrl,
    Share,
    Text,
    Texts,
)
from afterword.config.vendor import VendorConfig
from afterword.errors import ConfigurationError

DEFAULT_CONTEXT = 4096
"""Tokens of context when none is asked for, where a model does not say what it was trained with, where memory has no
limit, or where cells take their memory at the start: about a second a GiB."""

MAX_CANDIDATES = 2048
"""Of one request; as many may wait, so that an idle server can serve every request that it takes."""

KernelChoice = Literal["own", "llama.cpp"]
"""Which kernels compute matrix products."""


class ServerConfig(Table):
    """Settings of the HTTP server, and what it lets clients ask for."""

    host: Text = key("127.0.0.1", "Address to listen on; any but a loopback one needs a key.")
    port: int = key(8000, "TCP port to listen on; 0 takes a free one.", ge=0, le=65535)
    api_key: ApiKey | None = key(
        None,
        "Key that requests must carry, unless they carry one made by `afterword keys`.",
        shown="none: without any key the server is open, which only a loopback address allows",
        secret=True,
    )
    model: Text | None = key(
        None,
        "Serve this one alone: a name, the path of a GGUF file, or hf:organisation/repository:quantisation.",
        shown="all",
    )
    strict: bool = key(False, "Refuse unknown fields, more than 4 stops and logprobs above 5, as documented.")
    retired_names: bool = key(
        True,
        "Let the default model answer to the hosted API's retired names too (gpt-3.5-turbo-instruct, davinci-002, "
        "babbage-002), while no [[models]] are configured and `strict` is off.",
    )
    max_logprobs: int = key(100, "Largest `logprobs` a request may ask for.", ge=0, le=1000)
    max_listed: int = key(
        1_000_000,
        "Most log-probabilities in one answer: choices times tokens times (logprobs + 1).",
        ge=1000,
    )
    max_candidates: int = key(MAX_CANDIDATES, "Most candidates (prompts times best_of) in one request.", ge=1)
    max_body_bytes: Bytes = key(12 * 2**20, "Largest request body, also once inflated.", shown="12MiB")
    max_bodies_bytes: Bytes | None = key(
        None,
        "Request bodies that are held at once, without the first 64 KiB of each; at least twice max_body_bytes.",
        shown="8 times max_body_bytes",
    )
    max_body_values: int = key(
        700_000,
        "Most values in the JSON of a body: numbers and texts, a name counted as 4, an array as 5, an object as 15.",
        ge=1000,
    )
    max_text_bytes: Bytes = key(
        4 * 2**20,
        "Longest text to tokenize for one request: prompts together, suffix, negative prompt, a text for /tokenize.",
        shown="4MiB",
    )
    keep_alive: int = key(
        75,
        "Seconds that a connection stays open after an answer; more than a proxy in front keeps it.",
        ge=1,
        le=86400,
    )
    head_timeout: int = key(
        60, "Seconds within which a connection must bring a request's head, also its first.", ge=1, le=86400
    )
    stall_timeout: int = key(
        300, "Seconds that a client may read nothing of its answer before it counts as gone.", ge=1, le=86400
    )
    drain_timeout: int = key(
        30, "Seconds that answers under way may take after a signal to stop; then they are ended.", ge=0, le=86400
    )
    request_timeout: int | None = key(
        None,
        "Seconds that a completion request may take, waiting included; then it ends with what was generated.",
        shown="as many as it needs",
        ge=1,
    )
    max_connections: int | None = key(
        None,
        "Connections at once; for one more, the one that is idle for longest is closed.",
        shown="10000, or three quarters of the file descriptors that are left",
        ge=1,
    )
    cors_origins: Texts = key(
        (),
        "Web origins whose pages may call the server, such as https://lite.koboldai.net; `null` for pages from files, "
        "* for all; see docs/operate.md.",
        shown="none but its own",
    )
    allowed_hosts: Texts = key(
        (),
        "Names beside this machine's own under which a server without keys answers; * for all; see docs/operate.md.",
        shown="none",
    )
    content_filter: FileOrFunction | None = key(
        None,
        "List of words and patterns, or Python function, that ends completions; see docs/filter.md.",
        shown="none",
    )
    otlp_endpoint: HttpUrl | None = key(
        None,
        "OpenTelemetry collector that traces are sent to over HTTP, e.g. http://127.0.0.1:4318; see "
        "docs/observability.md.",
        shown="none: nothing is traced",
    )
    log_format: Literal["console", "json"] = key("console", "How log lines are written to stderr.")
    log_file: FilePath | None = key(None, "File that log lines are appended to; SIGUSR1 opens it anew.", shown="stderr")
    log_level: Literal["debug", "info", "warning", "error"] = key("info", "Least severe lines to log.")

    @property
    def bodies_bytes(self) -> int:
        """Bytes of bodies that may be held at once."""
        return 8 * self.max_body_bytes if self.max_bodies_bytes is None else self.max_bodies_bytes

    @model_validator(mode="after")
    def _room_for_the_largest_body(self) -> Self:
        # As it was sent and inflated.
        if self.bodies_bytes < 2 * self.max_body_bytes:
            raise ConfigurationError(
                f"max_bodies_bytes is {self.max_bodies_bytes}, less than twice max_body_bytes, which is "
                f"{self.max_body_bytes}."
            )
        return self


class EngineConfig(Table):
    """Settings that all models share."""

    max_waiting: int = key(
        MAX_CANDIDATES, "Sequences that may wait for a slot; beyond it requests are answered 503.", ge=0
    )
    memory: Memory = key(
        Share(0.75),
        "Budget for weights and contexts of all models together; contexts take it as they grow.",
        shown="75% of the memory that is free at start",
    )
    threads: int | None = key(None, "Threads of a model.", shown="the physical cores it may use", ge=1, le=1024)
    step_timeout: int = key(
        300,
        "Seconds that one step of a model may take, a piece of a prompt for one; after more its process counts as "
        "stuck and is started again.",
        ge=1,
        le=86400,
    )
    load_timeout: int = key(
        1800,
        "Seconds that loading a model may take; after more its process is ended, and the model is refused.",
        ge=1,
        le=86400,
    )
    kernels: KernelChoice = key(
        "own",
        "Who computes matrix products: `own`, this project's kernels, whose numbers do not depend on what is computed "
        "beside them, or `llama.cpp`, its own.",
    )
    drafts: bool = key(
        True,
        "Guess tokens from the text so far and compute several in a step; answers are the same with and without.",
    )
    cache_dir: Directory = key(
        ...,
        "Where hashes of model files and results of probes are kept.",
        shown="~/.cache/afterword, or afterword in XDG_CACHE_HOME",
    )
    models_dir: Directory = key(
        ...,
        "Folder whose GGUF files are models by their names; `afterword pull` puts them there.",
        shown="~/.local/share/afterword/models, or afterword/models in XDG_DATA_HOME",
    )
    model_keep_alive: KeepAlive = key(
        300.0,
        "How long a model of models_dir stays loaded after its last request; -1: for good.",
        shown="5m",
    )
    max_loaded: int = key(
        3,
        "Models with a keep_alive that share their part of the memory; one that needs more of it has fewer beside it.",
        ge=1,
        le=1000,
    )
    context: Context | None = key(
        None,
        "Tokens of prompt and completion together, for models that don't say.",
        shown="what the model was trained with, as far as the memory allows",
    )
    parallel: Parallel = key(PARALLEL, "Sequences that run at once, for models that don't say.")
    kv_type: KVType = key(
        "f16",
        "Type of the numbers in the KV cache, for models that don't say: q8_0 takes half the memory of f16.",
    )
    gpu_layers: GpuLayers = key(
        "auto",
        "Layers that accelerators hold, for models that don't say: auto (as many as fit), all, none or a number.",
    )
    devices: Texts = key(
        (),
        "Accelerators that may hold layers, by llama.cpp's names, e.g. CUDA0,CUDA1; for models that don't say.",
        shown="all there are",
    )
    split_mode: SplitMode = key(
        "layer",
        "How accelerators share a model that doesn't say: by layers, by rows of matrices, or not at all.",
    )
    main_gpu: MainGpu = key(
        0, "Which of the accelerators holds what is not split, counted from 0, for models that don't say."
    )


class GatewayConfig(Table):
    """Where keys, accounts and the usage ledger are kept, and how processes share the limits of keys."""

    database: Database = key(
        ...,
        "Where keys, accounts and the usage ledger are kept; none keeps neither keys nor a ledger.",
        shown="~/.local/share/afterword/afterword.db, or afterword/afterword.db in XDG_DATA_HOME",
        secret=True,
    )
    redis: RedisUrl | None = key(
        None,
        "Redis through which several processes share the limits of keys.",
        shown="none: each process counts for itself",
        secret=True,
    )


class ClusterConfig(Table):
    """How many replicas of what a cluster runs, and what each of them needs."""

    min_replicas: int = key(1, "Engines of each model on a cluster (--cluster), at least.", ge=1)
    max_replicas: int = key(1, "At most; they follow the load between the two.", ge=1)
    replicas_per_node: int = key(1, "Engines of one model on one machine; 0: any number.", ge=0, le=100)
    replica_cpus: int = key(1, "Processors that Ray sets aside for an engine.", ge=0)
    replica_gpus: int = key(0, "GPUs that Ray sets aside for an engine.", ge=0)
    http_replicas: int = key(1, "Processes that take requests and pass them to the engines.", ge=1)

    @model_validator(mode="after")
    def _not_fewer_at_most_than_at_least(self) -> Self:
        if self.max_replicas < self.min_replicas:
            raise ConfigurationError(
                f"max_replicas is {self.max_replicas}, less than min_replicas, which is {self.min_replicas}."
            )
        return self


class Config(Table):
    """The whole configuration. The first model is the default."""

    server: ServerConfig
    engine: EngineConfig
    gateway: GatewayConfig
    cluster: ClusterConfig
    models: Annotated[tuple[ModelConfig, ...], Strict(False)] = key((), "Models to serve.", secret=True)
    vendors: Annotated[tuple[VendorConfig, ...], Strict(False)] = key((), "Servers that run models.", secret=True)


SECTIONS: dict[str, dict[str, Key]] = {
    name: keys_of(table)
    for name, table in ((name, field.annotation) for name, field in Config.model_fields.items())
    if isinstance(table, type) and issubclass(table, Table)
}
"""The tables that a file has once. Their keys have options and variables, so no name is in two of them."""

SETTINGS = [one for keys in SECTIONS.values() for one in keys.values()]
