"""What follows from several tables: defaults of models, keys of vendors, checks of names.

Opens no model. Every mistake is a `ConfigurationError`.
"""

from collections.abc import Mapping
from os.path import expanduser
from pathlib import Path

from afterword.config.hub_name import HUB, HubModel
from afterword.config.model import DEFAULT_MODEL, DEFAULT_NAME, ECHO, RETIRED_NAMES, ModelConfig
from afterword.config.models_folder import models_in
from afterword.config.refusal import read_secret
from afterword.config.tree import Config, EngineConfig
from afterword.config.values import HeaderText, is_unicode
from afterword.config.vendor import LOCAL, VendorConfig
from afterword.errors import ConfigurationError
from afterword.gguf_parts import model_name

OFFLOADING = ("gpu_layers", "devices", "split_mode", "main_gpu")
SHARED = ("context", "parallel", "kv_type", *OFFLOADING)
"""Settings of `[engine]` that a model takes where it has none of its own."""


def decide(config: Config, path: Path, environment: Mapping[str, str], directory: Path) -> Config:
    """The complete configuration. `path`: its file; `directory`: where the program was started."""
    engine, base = config.engine, path.parent
    models = tuple(
        _complete(model, f"[[models]] number {number} of {path}", engine, base)
        for number, model in enumerate(config.models, start=1)
    ) or (_complete(ModelConfig(path=DEFAULT_MODEL.name), "", engine, base),)
    models = _one_called_default(models)
    if config.server.model is not None:
        models = _one_called_default((_selected(config.server.model, models, engine, directory),))
    else:
        models = (*models, *_of_folder(engine, models))
    if not config.models and config.server.retired_names and not config.server.strict:
        models = (_with_retired_names(models[0]), *models[1:])
    vendors = tuple(
        _with_api_key(vendor, f"[[vendors]] number {number} of {path}", environment)
        for number, vendor in enumerate(config.vendors, start=1)
    )
    _check_vendors(vendors, path)
    _check_models(models, [LOCAL, *(vendor.name for vendor in vendors)])
    return config.model_copy(update={"models": models, "vendors": vendors})


def _complete(model: ModelConfig, place: str, engine: EngineConfig, base: Path) -> ModelConfig:
    """The model with defaults for everything that its table leaves out. `place`: where that is, for messages."""
    _check_table(model, place)
    follows = {} if model.path is None else _from_path(model.path, model.engine, base)
    given = {name: getattr(model, name) for name in model.model_fields_set - {"path"}}
    if model.tokenizer is not None:
        given["tokenizer"] = _located(model.tokenizer, base)
    whole = model.model_copy(update={**{name: getattr(engine, name) for name in SHARED}, **follows, **given})
    if whole.path is not None and not is_unicode(whole.path):
        raise ConfigurationError(f"The model's path is {whole.path!r}: it must be in UTF-8, with all its folders.")
    if whole.keep_alive is not None and (whole.engine == "vllm" or whole.vendors != (LOCAL,)):
        raise ConfigurationError(f"keep_alive in {place} is set, but not only llama.cpp runs the model.")
    for name in ("kv_type", *OFFLOADING):
        if name in given and whole.engine != "llama":
            raise ConfigurationError(f"{name} in {place} is set, but the engine {whole.engine!r} takes none.")
    if whole.options and whole.engine != "vllm":
        raise ConfigurationError(f"options in {place} is set, but the engine {whole.engine!r} takes none.")
    return whole


def _check_table(model: ModelConfig, place: str) -> None:
    """Refuse a table that leaves out what is required, or has settings of a local model without one."""
    if LOCAL in model.vendors:
        if model.path is None:
            raise ConfigurationError(f"There is no path in {place}: it must name a GGUF file, or be {ECHO!r}.")
        return
    if model.name == "":
        raise ConfigurationError(f"There is no name in {place}: a model that only vendors run needs one.")
    for name in ("path", "engine", "options", "parallel", "kv_type", *OFFLOADING):
        if name in model.model_fields_set:
            raise ConfigurationError(f"{name} in {place} is set, but {LOCAL!r} is not among its vendors.")


def _from_path(path: str, engine: str, base: Path) -> Mapping[str, object]:
    """The settings that follow from a model's path."""
    if path == ECHO:
        return {"name": ECHO, "engine": ECHO}
    if path == DEFAULT_MODEL.name:
        return {"name": path}
    if path.startswith(HUB):
        return {"name": HubModel.parsed(path).name}
    file = Path(_located(path, base))
    if engine == "llama":
        return {"name": model_name(file.name), "path": str(file)}
    # Other engines also accept names that are no paths, such as those of a model hub.
    return {"name": Path(path).name, "path": str(file) if file.exists() else path}


def _located(path: str, base: Path) -> str:
    return path if path in (ECHO, DEFAULT_MODEL.name) or path.startswith(HUB) else str(base / expanduser(path))


def _one_called_default(models: tuple[ModelConfig, ...]) -> tuple[ModelConfig, ...]:
    """The models, the first of them answering to `default` too if none does (docs/rules.md#model-names)."""
    if any(DEFAULT_NAME in (model.name, *model.aliases) for model in models):
        return models
    first, *further = models
    return (first.model_copy(update={"aliases": (*first.aliases, DEFAULT_NAME)}), *further)


def _of_folder(engine: EngineConfig, models: tuple[ModelConfig, ...]) -> tuple[ModelConfig, ...]:
    """The models of `models_dir`, but those whose names others have."""
    taken = {name for model in models for name in (model.name, *model.aliases, f"{model.vendors[0]}/{model.name}")}
    return tuple(
        _complete(ModelConfig(path=str(file), keep_alive=engine.model_keep_alive), "", engine, file.parent)
        for name, file in models_in(engine.models_dir).items()
        if name not in taken
    )


def _selected(wanted: str, models: tuple[ModelConfig, ...], engine: EngineConfig, directory: Path) -> ModelConfig:
    """The configured model called `wanted`, else a model with `wanted` as its path."""
    for model in models:
        if wanted in (model.name, *model.aliases):
            return model
    pulled = models_in(engine.models_dir)
    if wanted in pulled:
        return _complete(ModelConfig(path=str(pulled[wanted])), "", engine, directory)
    if wanted in (DEFAULT_MODEL.name, ECHO) or wanted.startswith(HUB) or (directory / expanduser(wanted)).is_file():
        return _complete(ModelConfig(path=wanted), "", engine, directory)
    names = ", ".join(dict.fromkeys([*(model.name for model in models), *pulled, DEFAULT_MODEL.name, ECHO]))
    raise ConfigurationError(f"model is {wanted!r}: it must be a GGUF file that exists or one of {names}.")


def _with_retired_names(model: ModelConfig) -> ModelConfig:
    """The only model of a server without [[models]], under more names: docs/rules.md#retired-names."""
    names = dict.fromkeys([*model.aliases, *RETIRED_NAMES])
    return model.model_copy(update={"aliases": tuple(name for name in names if name != model.name)})


def _check_models(models: tuple[ModelConfig, ...], runners: list[str]) -> None:
    """Refuse two models of one name, short, full or alias (docs/rules.md#model-names), and vendors not configured."""
    known: dict[str, ModelConfig] = {}
    for model in models:
        for name in (model.name, f"{model.vendors[0]}/{model.name}", *model.aliases):
            if known.setdefault(name, model) is not model:
                raise ConfigurationError(f"Two models answer to {name!r}: names and aliases must differ.")
        for name in model.vendors:
            if name not in runners:
                raise ConfigurationError(
                    f"vendor of the model {model.name!r} is {name!r}: it must be one of {', '.join(runners)}; each of "
                    "them but local is a table [[vendors]]."
                )


def _with_api_key(vendor: VendorConfig, place: str, environment: Mapping[str, str]) -> VendorConfig:
    """The vendor with the key that its variable holds, if it names one."""
    variable = vendor.api_key_env
    if variable is None:
        return vendor
    if vendor.api_key is not None:
        raise ConfigurationError(f"There are both api_key and api_key_env in {place}: leave one out.")
    found = environment.get(variable, "").strip()
    if found == "":
        raise ConfigurationError(f"api_key_env in {place} is {variable!r}, but that variable is not set.")
    key = read_secret(HeaderText, found, f"{variable}, which api_key_env in {place} names,")
    return vendor.model_copy(update={"api_key": key})


def _check_vendors(vendors: tuple[VendorConfig, ...], path: Path) -> None:
    seen = {LOCAL}
    for vendor in vendors:
        if vendor.name in seen:
            why = "that is this server itself" if vendor.name == LOCAL else "names must differ"
            raise ConfigurationError(f"A vendor in {path} is called {vendor.name!r}, but {why}.")
        seen.add(vendor.name)
