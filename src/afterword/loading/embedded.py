"""Models that run on this machine without a server behind them: the embedded engine and the echo engine.

Knows no model library: the embedded engine is imported only when a model of its kind is configured.
"""

import importlib.metadata
import time
from pathlib import Path

from afterword.config.hub_name import HUB, HubModel
from afterword.config.model import DEFAULT_MODEL, ModelConfig
from afterword.config.tree import DEFAULT_CONTEXT, EngineConfig
from afterword.config.values import Share
from afterword.engine.base import Capabilities
from afterword.engine.echo import EchoEngine
from afterword.errors import ConfigurationError
from afterword.gguf_header import read_header
from afterword.gguf_parts import parts_of
from afterword.machine import free_memory, usable_cores
from afterword.registry import ServedModel

BUFFER_BYTES = 256 * 2**20
"""About what the buffers of a model take beside weights and texts."""


def memory_budget(memory: int | Share) -> int:
    """Bytes for all models together."""
    return int(free_memory() * memory.fraction) if isinstance(memory, Share) else memory


def model_file(path: str | None) -> Path:
    """The GGUF file of a model's `path`. Raises `ConfigurationError` if there is none."""
    if path is None:
        raise ConfigurationError("The model has no file: it is run by vendors.")
    if path == DEFAULT_MODEL.name:
        return _packaged_file()
    if path.startswith(HUB):
        return _pulled_file(HubModel.parsed(path))
    file = Path(path)
    if not file.is_file():
        what = "is not a file" if file.exists() else "does not exist"
        raise ConfigurationError(f"The model file {path} {what}.")
    return file


def bytes_needed(model: ModelConfig) -> int:
    """About how much memory the model takes with one text as long as its context, or of `DEFAULT_CONTEXT` tokens.

    Raises `ConfigurationError` if its file cannot be read.
    """
    if model.engine == "echo":
        return 0
    headers = [read_header(part) for part in parts_of(model_file(model.path))]
    context = DEFAULT_CONTEXT if model.context is None else model.context
    return sum(header.tensor_bytes for header in headers) + context * headers[0].cell_bytes + BUFFER_BYTES


def load_echo(model: ModelConfig, engine: EngineConfig) -> ServedModel:
    """The echo engine."""
    context = {} if model.context is None else {"context": model.context}
    echo = EchoEngine(n_slots=model.parallel, max_waiting=engine.max_waiting, **context)
    return ServedModel(model.name, echo, int(time.time()), model.aliases, infill_template=model.infill_template)


def load_llama(model: ModelConfig, engine: EngineConfig, budget: int) -> ServedModel:
    """llama.cpp with `budget` bytes, in a process of its own. Raises `ConfigurationError`."""
    # Here and not above: the library behind it takes a second to load and is not needed to serve other engines.
    from afterword.engine.llama.llama_loading import LlamaSettings
    from afterword.engine.llama.offload import OffloadSettings
    from afterword.engine.worker.worker_engine import load_engine

    file = model_file(model.path)
    settings = LlamaSettings(
        path=file,
        context=model.context,
        parallel=model.parallel,
        threads=usable_cores() if engine.threads is None else engine.threads,
        max_waiting=engine.max_waiting,
        memory_bytes=budget,
        cache_dir=engine.cache_dir,
        kernels=engine.kernels,
        kv_type=model.kv_type,
        load_seconds=engine.load_timeout,
        offload=OffloadSettings(model.gpu_layers, model.devices, model.split_mode, model.main_gpu),
        drafts=engine.drafts,
    )
    loaded = load_engine(settings, step_seconds=engine.step_timeout)
    status = file.stat()
    return ServedModel(
        model.name,
        loaded,
        int(status.st_mtime),
        model.aliases,
        card={
            "file": file.name,
            "size_bytes": status.st_size,
            "kv_type": model.kv_type,
            "runs_on": loaded.capabilities.runs_on,
            "space": space(loaded.capabilities, model.context),
        },
        infill_template=model.infill_template,
    )


def space(can: Capabilities, asked: int | None) -> str:
    """What a model has for texts, why, and which settings change it. `asked`: the context of its configuration."""
    said = f"context {can.context}"
    if asked is None and can.trained_context is not None and can.context < can.trained_context:
        said += f" of {can.trained_context} it was trained with (`memory`, `kv_type` and `context` change it)"
    said += f", {can.n_slots} slots"
    if can.n_cells is not None and can.n_cells < can.n_slots * can.context:
        said += f" that share {can.n_cells} tokens (`memory`, `kv_type`)"
    return said


def _pulled_file(model: HubModel) -> Path:
    # Here and not above: the library behind it takes a second to load.
    from afterword.pulling.hub import cached

    file = cached(model)
    if file is None:
        raise ConfigurationError(f"The model {model} is not on this machine: `afterword pull {model}` fetches it.")
    return file


def _packaged_file() -> Path:
    """The default model's file, found through its distribution's metadata so that none of its code runs."""
    name = DEFAULT_MODEL.distribution
    try:
        files = importlib.metadata.files(name) or []
    except importlib.metadata.PackageNotFoundError:
        raise ConfigurationError(
            f"The default model comes with the Python package {name}, which is not installed: install it, or name "
            "another model with --model."
        ) from None
    for file in files:
        if file.name == DEFAULT_MODEL.file:
            return Path(str(file.locate()))
    raise ConfigurationError(f"The Python package {name} has no file {DEFAULT_MODEL.file}: install it again.")
