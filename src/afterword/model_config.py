"""`[[models]]`: each table as a `ModelConfig`, with everything that it leaves out filled in.

Opens no file. Everything wrong is a `ConfigurationError`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from afterword.defaults import DEFAULT_MODEL, ECHO, LLAMA, MODEL_SETTINGS
from afterword.errors import ConfigurationError
from afterword.tables import File, read_table, tables_of


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """One model to serve."""

    name: str
    path: str
    """`echo`, the name of the packaged model, or a file's path."""
    aliases: tuple[str, ...]
    context: int | None
    parallel: int
    infill_template: str | None
    engine: str = LLAMA
    """Which engine runs it, a word of `defaults.ENGINES`."""
    options: Mapping[str, object] = field(default_factory=dict, hash=False)
    """What that engine alone understands, as written."""


@dataclass(frozen=True, slots=True)
class Common:
    """What a model gets that does not say itself."""

    context: int | None
    parallel: int


def read_models(file: File, common: Common) -> tuple[ModelConfig, ...]:
    """Every configured model, the packaged one if there is none. Raises `ConfigurationError`."""
    models = tuple(_model(table, place, file.path.parent, common) for table, place in tables_of(file, "models"))
    return models if models else (_packaged(common),)


def select_model(wanted: str, models: tuple[ModelConfig, ...], common: Common, directory: Path) -> ModelConfig:
    """The configured model called `wanted`, else the one it is the path of. Raises `ConfigurationError`."""
    for model in models:
        if wanted in (model.name, *model.aliases):
            return model
    if wanted in (DEFAULT_MODEL.name, ECHO) or (directory / Path(wanted).expanduser()).is_file():
        return _from_path(wanted, LLAMA, directory, common)
    names = ", ".join(dict.fromkeys([*(model.name for model in models), DEFAULT_MODEL.name, ECHO]))
    raise ConfigurationError(f"model is {wanted!r}: it must be a GGUF file that exists or one of {names}.")


def check_names(models: tuple[ModelConfig, ...]) -> None:
    """Raise `ConfigurationError` if two models answer to one name."""
    seen: set[str] = set()
    for name in (name for model in models for name in (model.name, *model.aliases)):
        if name in seen:
            raise ConfigurationError(f"Two models answer to {name!r}: names and aliases must differ.")
        seen.add(name)


def _model(table: dict[str, Any], place: str, base: Path, common: Common) -> ModelConfig:
    given = read_table(table, MODEL_SETTINGS, place)
    if "path" not in given:
        raise ConfigurationError(f"There is no path in {place}: it must name a GGUF file, or be {ECHO!r}.")
    model = replace(_from_path(given.pop("path"), given.get("engine", LLAMA), base, common), **given)
    if model.options and model.engine in (LLAMA, ECHO):
        raise ConfigurationError(f"options in {place} is set, but the engine {model.engine!r} takes none.")
    return model


def _from_path(path: str, engine: str, base: Path, common: Common) -> ModelConfig:
    """A model as its path alone describes it."""
    if path == ECHO:
        return ModelConfig(ECHO, ECHO, (), common.context, common.parallel, None, ECHO)
    if path == DEFAULT_MODEL.name:
        return _packaged(common)
    file = base / Path(path).expanduser()
    if engine == LLAMA:
        return ModelConfig(file.stem, str(file), (), common.context, common.parallel, None)
    # Other engines also take names that are no paths, such as those of a model hub.
    found = str(file) if file.exists() else path
    return ModelConfig(Path(path).name, found, (), common.context, common.parallel, None, engine)


def _packaged(common: Common) -> ModelConfig:
    name = DEFAULT_MODEL.name
    return ModelConfig(name, name, DEFAULT_MODEL.aliases, common.context, common.parallel, None)
