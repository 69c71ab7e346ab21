"""Models that are loaded when they are asked for (`keep_alive`)."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from afterword.config.model import ECHO, ModelConfig
from afterword.config.tree import EngineConfig
from afterword.engine.base import UNKNOWN_CONTEXT, Capabilities
from afterword.engine.loaded_models import LoadedModels
from afterword.engine.on_demand import ModelSource, OnDemandEngine
from afterword.errors import ConfigurationError
from afterword.gguf_parts import parts_of
from afterword.loading.embedded import bytes_needed, model_file
from afterword.registry import ServedModel

T = TypeVar("T")


def loaded_on_request(
    model: ModelConfig, engine: EngineConfig, load: Callable[[int], ServedModel], share: int, shared: LoadedModels
) -> ServedModel:
    """The model, of which nothing is read yet but that its file is there. Raises `ConfigurationError` if it is not.

    `load`: loads it with so many bytes. It gets `share` bytes, or more if it needs them, of what is `shared`.
    """
    assert model.keep_alive is not None
    file = None if model.path == ECHO else model_file(model.path)
    card = {} if file is None else {"file": file.name, "size_bytes": _size(file), "kv_type": model.kv_type}
    source = ModelSource(
        model.name,
        need=lambda: _plainly(file, lambda: max(share, bytes_needed(model))),
        load=lambda n_bytes: _plainly(file, lambda: load(n_bytes).engine),
        keep_alive=model.keep_alive,
        expected=_expected(model),
        max_waiting=engine.max_waiting,
    )
    on_demand = OnDemandEngine(source, shared)
    return ServedModel(
        model.name,
        on_demand,
        int(time.time() if file is None else file.stat().st_mtime),
        model.aliases,
        card=card,
        on_demand=on_demand,
        infill_template=model.infill_template,
    )


def _size(file: Path) -> int:
    return sum(part.stat().st_size for part in parts_of(file))


def _plainly(file: Path | None, work: Callable[[], T]) -> T:
    """What `work` returns. What it raises says the file's name and not its path: it goes to clients."""
    try:
        return work()
    except ConfigurationError as error:
        if file is None:
            raise
        raise ConfigurationError(str(error).replace(str(file), file.name)) from error


def _expected(model: ModelConfig) -> Capabilities:
    """What is said of the model before it was loaded."""
    return Capabilities(
        context=UNKNOWN_CONTEXT if model.context is None else model.context,
        max_logprobs=0,
        reproducible=False,
        prefix_cache=False,
        n_slots=model.parallel,
    )
