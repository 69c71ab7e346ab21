"""`[[models]]`: each table as a `ModelConfig`, with everything that it leaves out filled in.

Opens no file. Everything wrong is a `ConfigurationError`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from afterword.defaults import DEFAULT_MODEL, ECHO, LLAMA, LOCAL, MODEL_SETTINGS
from afterword.errors import ConfigurationError
from afterword.tables import File, read_table, tables_of
from afterword.text.infill import InfillTemplate


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """One model to serve."""

    name: str
    path: str | None
    """`echo`, the name of the packaged model, or a file's path; None: it does not run here."""
    aliases: tuple[str, ...]
    context: int | None
    parallel: int
    infill_template: InfillTemplate | None
    engine: str = LLAMA
    """Which engine runs it, a word of `defaults.ENGINES`."""
    options: Mapping[str, object] = field(default_factory=dict, hash=False)
    """What that engine alone understands, as written."""
    vendors: tuple[str, ...] = (LOCAL,)
    """Who runs it, in the order in which they are asked."""
    upstream_model: str | None = None
    """Its name at its vendors, None: the same."""
    tokenizer: str | None = None
    """`echo`, the name of the packaged model, or the path of a file that has its vocabulary; None: `path` if any."""


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
    """Raise `ConfigurationError` if two models share a name: short, full or alias (docs/rules.md#model-names)."""
    known: dict[str, ModelConfig] = {}
    for model in models:
        for name in (model.name, f"{model.vendors[0]}/{model.name}", *model.aliases):
            if known.setdefault(name, model) is not model:
                raise ConfigurationError(f"Two models answer to {name!r}: names and aliases must differ.")


def _model(table: dict[str, Any], place: str, base: Path, common: Common) -> ModelConfig:
    given = read_table(table, MODEL_SETTINGS, place)
    vendors = given.pop("vendor", (LOCAL,))
    if LOCAL in vendors and "path" not in given:
        raise ConfigurationError(f"There is no path in {place}: it must name a GGUF file, or be {ECHO!r}.")
    if LOCAL not in vendors:
        _check_remote(given, place)
    if "tokenizer" in given:
        given["tokenizer"] = _located(given["tokenizer"], base)
    model = replace(_as_found(given, base, common), vendors=vendors, **given)
    if model.options and model.engine in (LLAMA, ECHO):
        raise ConfigurationError(f"options in {place} is set, but the engine {model.engine!r} takes none.")
    return model


def _check_remote(given: Mapping[str, Any], place: str) -> None:
    """Refuse what says how to run a model here where nothing does."""
    if "name" not in given:
        raise ConfigurationError(f"There is no name in {place}: a model that only vendors run needs one.")
    for key in ("path", "engine", "options", "parallel"):
        if key in given:
            raise ConfigurationError(f"{key} in {place} is set, but {LOCAL!r} is not among its vendors.")


def _as_found(given: dict[str, Any], base: Path, common: Common) -> ModelConfig:
    """What follows from the path, or from there being none; the path is taken out of `given`."""
    if "path" not in given:
        return ModelConfig(given["name"], None, (), common.context, common.parallel, None)
    return _from_path(given.pop("path"), given.get("engine", LLAMA), base, common)


def _located(path: str, base: Path) -> str:
    return path if path in (ECHO, DEFAULT_MODEL.name) else str(base / Path(path).expanduser())


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
