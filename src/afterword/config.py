"""The configuration as one frozen tree, and the one function that puts it together.

Flags win over environment variables, those over the configuration file, that over the defaults. Opens no model and no
port. Everything wrong is a `ConfigurationError`: a sentence with the setting, its value, where it stands and the limit.
"""

import ipaddress
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from afterword.defaults import SECTIONS, SETTINGS, Setting
from afterword.engine.llama.settings import Layout
from afterword.engine.upstream.settings import VendorSettings
from afterword.errors import ConfigurationError
from afterword.kinds import NO_DATABASE, FunctionName, Kind, Share
from afterword.model_config import Common, ModelConfig, check_names, read_models, select_model
from afterword.tables import File, check_keys, refusal
from afterword.vendor_config import check_vendors, read_vendors

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
    content_filter: Path | FunctionName | None
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
    redis: str | None
    """URL of the Redis through which processes share limits, or None: each counts for itself."""


@dataclass(frozen=True, slots=True)
class ClusterConfig:
    """How many replicas of what a cluster runs, and what each of them needs."""

    min_replicas: int
    max_replicas: int
    replicas_per_node: int
    """0: as many as fit."""
    replica_cpus: int
    replica_gpus: int
    """What Ray sets aside for each."""
    http_replicas: int


@dataclass(frozen=True, slots=True)
class Config:
    """Everything a server is told. The first model is the default."""

    server: ServerConfig
    engine: EngineConfig
    gateway: GatewayConfig
    models: tuple[ModelConfig, ...]
    cluster: ClusterConfig
    vendors: tuple[VendorSettings, ...] = ()


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
    common = Common(engine.context, engine.parallel)
    models = read_models(file, common)
    if server.model is not None:
        models = (select_model(server.model, models, common, directory),)
    check_names(models)
    cluster = ClusterConfig(**_section("cluster", values))
    _check_cluster(cluster)
    vendors = read_vendors(file, environment)
    check_vendors(models, vendors)
    return Config(server, engine, GatewayConfig(**_section("gateway", values)), models, cluster, vendors)


def _check_cluster(cluster: ClusterConfig) -> None:
    if cluster.max_replicas < cluster.min_replicas:
        raise ConfigurationError(
            f"max_replicas is {cluster.max_replicas}, less than min_replicas, which is {cluster.min_replicas}."
        )


def _value(setting: Setting, flags: Mapping[str, object], environment: Mapping[str, str], file: File) -> object:
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
        raise refusal(place, table[setting.name], setting.kind, secret=setting.secret) from None
    return file.path.parent / value if isinstance(value, Path) else value


def _convert(kind: Kind, given: object, place: str, setting: Setting) -> object:
    try:
        return kind.parse(given) if isinstance(given, str) else kind.check(given)
    except ValueError:
        raise refusal(place, given, kind, secret=setting.secret) from None


def _section(section: str, values: Mapping[str, object]) -> dict[str, Any]:
    return {setting.name: values[setting.name] for setting in SETTINGS if setting.section == section}


def _home(environment: Mapping[str, str], variable: str, usual: str) -> Path:
    """The program's own folder among the user's, by the desktop's rules."""
    base = environment.get(variable, "")
    if base != "":
        return Path(base) / "afterword"
    try:
        return Path.home() / usual / "afterword"
    except RuntimeError as error:
        raise ConfigurationError(f"This user has no home directory: set HOME, or {variable}.") from error


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


def _read(path: Path | None, directory: Path) -> File:
    if path is None:
        return File(directory / CONFIG_FILE, {})
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigurationError(f"The configuration file {path} cannot be read: {error}.") from error
    check_keys(document, {*SECTIONS, "models", "vendors"}, f"{path}", "table")
    for section in SECTIONS:
        table = document.get(section, {})
        if not isinstance(table, dict):
            raise ConfigurationError(f"{section} in {path} is {table!r}: it must be a table, written [{section}].")
        known = {setting.name for setting in SETTINGS if setting.section == section}
        check_keys(table, known, f"[{section}] of {path}", "setting")
    return File(path, document)


def check_exposure(server: ServerConfig, n_keys: int) -> None:
    """Refuse to serve other machines without a key (docs/rules.md#open-on-loopback).

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
