"""The configuration as one frozen tree, and the one function that puts it together.

Flags win over environment variables, those over the configuration file, that over the defaults. Opens no model and no
port. Everything wrong is a `ConfigurationError`: a sentence with the setting, its value, where it stands and the limit.
"""

import difflib
import ipaddress
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from afterword.defaults import DEFAULT_MODEL, ECHO, MODEL_SETTINGS, SECTIONS, SETTINGS, Setting
from afterword.engine.llama.settings import Layout
from afterword.errors import ConfigurationError
from afterword.kinds import NO_DATABASE, Kind, Share

CONFIG_FLAG = "config"
CONFIG_VARIABLE = "AFTERWORD_CONFIG"
CONFIG_FILE = "afterword.toml"
DATABASE_FILE = "afterword.db"


@dataclass(frozen=True, slots=True)
class ServerConfig:
    """What the HTTP side is told."""

    host: str
    port: int
    api_key: str | None
    model: str | None
    strict: bool
    max_logprobs: int
    max_candidates: int
    max_body_bytes: int
    cors_origins: tuple[str, ...]
    log_format: Literal["console", "json"]
    log_level: str


@dataclass(frozen=True, slots=True)
class EngineConfig:
    """What all models share."""

    max_waiting: int
    memory: int | Share
    """Bytes, or a share of the memory free at start, for all models together."""
    threads: int | None
    layout: Layout
    cache_dir: Path
    context: int | None
    parallel: int


@dataclass(frozen=True, slots=True)
class GatewayConfig:
    """Where keys, accounts and the usage ledger are kept."""

    database: Path | str | None
    """A SQLite file, the URL of a database, or None: keep neither keys nor a ledger."""


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


@dataclass(frozen=True, slots=True)
class Config:
    """Everything a server is told. The first model is the default."""

    server: ServerConfig
    engine: EngineConfig
    gateway: GatewayConfig
    models: tuple[ModelConfig, ...]


@dataclass(frozen=True, slots=True)
class _File:
    """A configuration file that has been read; an empty document if there is none."""

    path: Path
    document: dict[str, Any]


def load_config(flags: Mapping[str, object], environment: Mapping[str, str], directory: Path) -> Config:
    """The configuration of a run started in `directory`. Raises `ConfigurationError`.

    `flags` holds options by setting name as text or booleans, None where not given, and the file's under `config`.
    """
    file = _read(_find_file(flags, environment, directory), directory)
    values = {setting.name: _value(setting, flags, environment, file) for setting in SETTINGS}
    if values["cache_dir"] is None:
        values["cache_dir"] = _home(environment, "XDG_CACHE_HOME", ".cache")
    if values["database"] is None:
        values["database"] = _home(environment, "XDG_DATA_HOME", ".local/share") / DATABASE_FILE
    elif values["database"] == NO_DATABASE:
        values["database"] = None
    server = ServerConfig(**_section("server", values))
    engine = EngineConfig(**_section("engine", values))
    models = _models(file, engine)
    if server.model is not None:
        models = (_select(server.model, models, engine, directory),)
    _check_names(models)
    return Config(server, engine, GatewayConfig(**_section("gateway", values)), models)


def _value(setting: Setting, flags: Mapping[str, object], environment: Mapping[str, str], file: _File) -> object:
    """One setting from the first source that gives it; an empty variable counts as not set."""
    flag = flags.get(setting.name)
    if flag is not None:
        return _convert(setting.kind, flag, setting.flag, setting)
    text = environment.get(setting.variable, "")
    if text != "":
        return _convert(setting.kind, text, setting.variable, setting)
    table = file.document.get(setting.section, {})
    if setting.name not in table:
        return setting.default
    try:
        value = setting.kind.check(table[setting.name])
    except ValueError:
        place = f"{setting.name} in [{setting.section}] of {file.path}"
        raise _refusal(place, table[setting.name], setting.kind, setting) from None
    return file.path.parent / value if isinstance(value, Path) else value


def _convert(kind: Kind, given: object, place: str, setting: Setting) -> object:
    try:
        return kind.parse(given) if isinstance(given, str) else kind.check(given)
    except ValueError:
        raise _refusal(place, given, kind, setting) from None


def _refusal(place: str, given: object, kind: Kind, setting: Setting | None = None) -> ConfigurationError:
    shown = "not usable" if setting is not None and setting.secret else repr(given)
    return ConfigurationError(f"{place} is {shown}: it must be {kind.label}.")


def _section(section: str, values: Mapping[str, object]) -> dict[str, Any]:
    return {setting.name: values[setting.name] for setting in SETTINGS if setting.section == section}


def _home(environment: Mapping[str, str], variable: str, usual: str) -> Path:
    """The program's own folder among the user's, by the desktop's rules."""
    base = environment.get(variable, "")
    return (Path(base) if base != "" else Path.home() / usual) / "afterword"


def _find_file(flags: Mapping[str, object], environment: Mapping[str, str], directory: Path) -> Path | None:
    """The file to read; one that was asked for by name must exist."""
    flag = flags.get(CONFIG_FLAG)
    named = environment.get(CONFIG_VARIABLE, "") if flag is None else str(flag)
    if named == "":
        file = directory / CONFIG_FILE
        return file if file.is_file() else None
    file = directory / Path(named).expanduser()
    if not file.is_file():
        place = CONFIG_VARIABLE if flag is None else "--" + CONFIG_FLAG
        raise ConfigurationError(f"{place} names {named}, which is not a file.")
    return file


def _read(path: Path | None, directory: Path) -> _File:
    if path is None:
        return _File(directory / CONFIG_FILE, {})
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigurationError(f"The configuration file {path} cannot be read: {error}.") from error
    _check_keys(document, {*SECTIONS, "models"}, f"{path}", "table")
    for section in SECTIONS:
        table = document.get(section, {})
        if not isinstance(table, dict):
            raise ConfigurationError(f"{section} in {path} is {table!r}: it must be a table, written [{section}].")
        known = {setting.name for setting in SETTINGS if setting.section == section}
        _check_keys(table, known, f"[{section}] of {path}", "setting")
    return _File(path, document)


def _check_keys(given: Iterable[str], known: set[str], place: str, noun: str) -> None:
    for key in given:
        if key not in known:
            close = difflib.get_close_matches(key, known, n=1)
            hint = f"; did you mean {close[0]!r}?" if close else f": it has {', '.join(sorted(known))}."
            raise ConfigurationError(f"There is no {noun} {key!r} in {place}{hint}")


def check_exposure(server: ServerConfig, n_keys: int) -> None:
    """Refuse to serve other machines without a key (SPEC section 7).

    `n_keys` counts the keys in the database that are good at this moment. Raises `ConfigurationError`.
    """
    if server.api_key is None and n_keys == 0 and not is_loopback(server.host):
        raise ConfigurationError(
            f"host is {server.host}, which other machines may reach, and there is no key that clients must send: make "
            "one with `afterword keys create NAME`, or set AFTERWORD_API_KEY (or api_key in the configuration file), "
            "or listen on 127.0.0.1."
        )


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach `host`; a name other than localhost counts as reachable."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def _models(file: _File, engine: EngineConfig) -> tuple[ModelConfig, ...]:
    tables = file.document.get("models", [])
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise ConfigurationError(f"models in {file.path} is not a list of tables: write each as [[models]].")
    if not tables:
        return (_packaged(engine),)
    return tuple(_model(table, number, file, engine) for number, table in enumerate(tables, start=1))


def _model(table: dict[str, Any], number: int, file: _File, engine: EngineConfig) -> ModelConfig:
    place = f"[[models]] number {number} of {file.path}"
    _check_keys(table, {setting.name for setting in MODEL_SETTINGS}, place, "setting")
    if "path" not in table:
        raise ConfigurationError(f"There is no path in {place}: it must name a GGUF file, or be {ECHO!r}.")
    given: dict[str, Any] = {}
    for setting in MODEL_SETTINGS:
        if setting.name in table:
            try:
                given[setting.name] = setting.kind.check(table[setting.name])
            except ValueError:
                raise _refusal(f"{setting.name} in {place}", table[setting.name], setting.kind) from None
    return replace(_from_path(given.pop("path"), file.path.parent, engine), **given)


def _from_path(path: str, base: Path, engine: EngineConfig) -> ModelConfig:
    """A model as its path alone describes it."""
    if path == DEFAULT_MODEL.name:
        return _packaged(engine)
    if path == ECHO:
        return ModelConfig(ECHO, ECHO, (), engine.context, engine.parallel, None)
    file = base / Path(path).expanduser()
    return ModelConfig(file.stem, str(file), (), engine.context, engine.parallel, None)


def _packaged(engine: EngineConfig) -> ModelConfig:
    name = DEFAULT_MODEL.name
    return ModelConfig(name, name, DEFAULT_MODEL.aliases, engine.context, engine.parallel, None)


def _select(wanted: str, models: tuple[ModelConfig, ...], engine: EngineConfig, directory: Path) -> ModelConfig:
    """The configured model called `wanted`, else the one it is the path of."""
    for model in models:
        if wanted in (model.name, *model.aliases):
            return model
    if wanted in (DEFAULT_MODEL.name, ECHO) or (directory / Path(wanted).expanduser()).is_file():
        return _from_path(wanted, directory, engine)
    names = ", ".join(dict.fromkeys([*(model.name for model in models), DEFAULT_MODEL.name, ECHO]))
    raise ConfigurationError(f"model is {wanted!r}: it must be a GGUF file that exists or one of {names}.")


def _check_names(models: tuple[ModelConfig, ...]) -> None:
    seen: set[str] = set()
    for name in (name for model in models for name in (model.name, *model.aliases)):
        if name in seen:
            raise ConfigurationError(f"Two models answer to {name!r}: names and aliases must differ.")
        seen.add(name)
