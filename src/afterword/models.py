"""Which models are served: names and aliases to engines, and how the configuration becomes them.

Knows no HTTP and no model library: engines are imported only when one of their kind is configured.
"""

import importlib.metadata
import time
from dataclasses import dataclass, field
from pathlib import Path

from afterword.config import Config, EngineConfig, ModelConfig
from afterword.defaults import DEFAULT_MODEL, ECHO
from afterword.engine.base import Engine
from afterword.engine.echo import EchoEngine
from afterword.engine.llama.settings import LlamaSettings
from afterword.errors import ConfigurationError, ModelNotFound
from afterword.kinds import Share
from afterword.machine import free_memory, usable_cores

LOCAL = "local"
"""The vendor of models that run in this process."""


@dataclass(frozen=True, slots=True)
class ServedModel:
    """A registered model and the engine that runs it."""

    name: str
    engine: Engine
    created: int
    """Unix seconds."""
    aliases: tuple[str, ...] = ()
    owned_by: str = "afterword"
    card: dict[str, object] = field(default_factory=dict)
    """Further facts for `/v1/models/{id}`: path, size in bytes, quantisation, layout, promises it cannot keep."""
    vendor: str = LOCAL
    """Who runs it: the part of the full name before the slash."""

    @property
    def full_name(self) -> str:
        """`vendor/name`, as the Scale GP dialect, keys and the ledger spell it (SPEC section 1)."""
        return f"{self.vendor}/{self.name}"


class Registry:
    """The models of one server. The first registered is the default."""

    def __init__(self, models: list[ServedModel]) -> None:
        assert models, "a server has at least one model"
        self._models = models
        short = {name: model for model in models for name in (model.name, *model.aliases)}
        self._by_name = short | {model.full_name: model for model in models}

    def get(self, name: str | None) -> ServedModel:
        """The model called `name`, by its full name, its short one or an alias; missing or blank is the default.

        Raises `ModelNotFound`.
        """
        if name is None or not name.strip():
            return self._models[0]
        try:
            return self._by_name[name]
        except KeyError:
            raise ModelNotFound(name) from None

    def all(self) -> list[ServedModel]:
        """Every model, in the order of registration."""
        return list(self._models)


def load_registry(config: Config) -> Registry:
    """Load every configured model, which takes seconds to minutes. Raises `ConfigurationError`.

    The memory budget is divided evenly among the models that need any.
    """
    embedded = [model for model in config.models if model.path != ECHO]
    budget = memory_budget(config.engine.memory) // max(1, len(embedded))
    return Registry([_load(model, config.engine, budget) for model in config.models])


def memory_budget(memory: int | Share) -> int:
    """Bytes that all models together may use."""
    return int(free_memory() * memory.fraction) if isinstance(memory, Share) else memory


def model_file(path: str) -> Path:
    """The GGUF file a model's `path` stands for. Raises `ConfigurationError` if there is none."""
    if path == DEFAULT_MODEL.name:
        return _packaged_file()
    file = Path(path)
    if not file.is_file():
        what = "is not a file" if file.exists() else "does not exist"
        raise ConfigurationError(f"The model file {path} {what}.")
    return file


def _load(model: ModelConfig, engine: EngineConfig, budget: int) -> ServedModel:
    if model.path == ECHO:
        return _load_echo(model, engine)
    return _load_llama(model, engine, budget)


def _load_echo(model: ModelConfig, engine: EngineConfig) -> ServedModel:
    context = {} if model.context is None else {"context": model.context}
    echo = EchoEngine(n_streams=model.parallel, max_waiting=engine.max_waiting, **context)
    return ServedModel(model.name, echo, int(time.time()), model.aliases, card=_card(model))


def _load_llama(model: ModelConfig, engine: EngineConfig, budget: int) -> ServedModel:
    # Here and not above: the library behind it takes a second to load and is not needed to serve other engines.
    from afterword.engine.llama.loading import load_engine

    file = model_file(model.path)
    loaded = load_engine(
        LlamaSettings(
            path=file,
            context=model.context,
            parallel=model.parallel,
            threads=usable_cores() if engine.threads is None else engine.threads,
            max_waiting=engine.max_waiting,
            memory_bytes=budget,
            cache_dir=engine.cache_dir,
            layout=engine.layout,
        )
    )
    status = file.stat()
    card = {"path": str(file), "size_bytes": status.st_size, **_card(model)}
    return ServedModel(model.name, loaded, int(status.st_mtime), model.aliases, card=card)


def _card(model: ModelConfig) -> dict[str, object]:
    """What the configuration itself adds to a model's card; `completions/infill.py` reads the template there."""
    return {} if model.infill_template is None else {"infill_template": model.infill_template}


def _packaged_file() -> Path:
    """The default model's file, found through its distribution's records so that none of its code runs."""
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
