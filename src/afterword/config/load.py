"""Loads the configuration from flags, environment variables and a file.

Flags win over environment variables, those over the configuration file, that over the defaults. Opens no model and no
port. Every mistake is a `ConfigurationError`: a sentence with the setting, its value, its place and the limit.
"""

import tomllib
from collections.abc import Mapping
from os.path import expanduser
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from afterword.config.decide import decide
from afterword.config.refusal import Elsewhere, refusal
from afterword.config.service_links import is_link
from afterword.config.tree import SECTIONS, Config
from afterword.config.values import from_text, is_unicode
from afterword.errors import ConfigurationError

CONFIG_FLAG = "config"
CONFIG_VARIABLE = "AFTERWORD_CONFIG"
CONFIG_FILE = "afterword.toml"

OWN_PATHS = {
    ("engine", "cache_dir"): ("XDG_CACHE_HOME", ".cache", "afterword"),
    ("engine", "models_dir"): ("XDG_DATA_HOME", ".local/share", "afterword/models"),
    ("gateway", "database"): ("XDG_DATA_HOME", ".local/share", "afterword/afterword.db"),
}
"""Defaults in the user's own folders (XDG): the variable, the folder if it is not set, the path in it."""


def load_config(flags: Mapping[str, object], environment: Mapping[str, str], directory: Path) -> Config:
    """The configuration of a run started in `directory`. Raises `ConfigurationError`.

    `flags` holds options by setting name as text or booleans, None where not given, and the file's under `config`.
    """
    file = find_file(flags, environment, directory)
    path = directory / CONFIG_FILE if file is None else file
    elsewhere = _elsewhere(flags, environment)
    document = _document({} if file is None else _read(file), elsewhere, environment)
    try:
        config = Config.model_validate(document)
    except ValidationError as error:
        # Without the cause: pydantic's messages repeat the values, API keys included.
        raise refusal(error, document, elsewhere, path) from None
    return decide(_located(config, elsewhere, path.parent), path, environment, directory)


def _elsewhere(flags: Mapping[str, object], environment: Mapping[str, str]) -> Elsewhere:
    """The settings given by flags and variables; an empty variable counts as not set."""
    found: Elsewhere = {}
    for section, keys in SECTIONS.items():
        for name, key in keys.items():
            # Files and secrets that variables are filled from often end in a line's end.
            flag, text = flags.get(name), environment.get(key.variable, "").rstrip("\r\n")
            if flag is not None:
                found[section, name] = (key.flag, flag)
            elif text != "" and not is_link(key.variable, text):
                found[section, name] = (key.variable, text)
    for place, given in found.values():
        if isinstance(given, str) and not is_unicode(given):
            raise ConfigurationError(f"{place} is {given!r}: it must be in UTF-8.")
    return found


def _document(written: Mapping[str, Any], elsewhere: Elsewhere, environment: Mapping[str, str]) -> dict[str, Any]:
    """The file's document, with the settings given elsewhere and the default paths put in."""
    whole: dict[str, Any] = {**{section: {} for section in SECTIONS}, **written}
    for section, keys in SECTIONS.items():
        # Anything but a table is refused later, by the model.
        if isinstance(whole[section], dict):
            table = dict(whole[section])
            for name, key in keys.items():
                if (section, name) in elsewhere:
                    _, given = elsewhere[section, name]
                    table[name] = from_text(key.kind, given) if isinstance(given, str) else given
                elif (section, name) in OWN_PATHS and name not in table:
                    table[name] = _own_path(environment, *OWN_PATHS[section, name])
            whole[section] = table
    return whole


def _own_path(environment: Mapping[str, str], variable: str, usual: str, path: str) -> Path:
    base = environment.get(variable, "")
    if base != "":
        return Path(base) / path
    try:
        return Path.home() / usual / path
    except RuntimeError as error:
        raise ConfigurationError(f"This user has no home directory: set HOME, or {variable}.") from error


def _located(config: Config, elsewhere: Elsewhere, base: Path) -> Config:
    """The configuration with the paths that its file gives made relative to `base`."""
    sections = {}
    for section in SECTIONS:
        table = getattr(config, section)
        paths = {name: base / value for name, value in table if isinstance(value, Path)}
        sections[section] = table.model_copy(
            update={name: path for name, path in paths.items() if (section, name) not in elsewhere}
        )
    return config.model_copy(update=sections)


def find_file(flags: Mapping[str, object], environment: Mapping[str, str], directory: Path) -> Path | None:
    """The file to read; one that is named must exist."""
    flag = flags.get(CONFIG_FLAG)
    named = environment.get(CONFIG_VARIABLE, "") if flag is None else str(flag)
    if named == "":
        file = directory / CONFIG_FILE
        return file if file.is_file() else None
    file = directory / expanduser(named)
    if not file.is_file():
        place = CONFIG_VARIABLE if flag is None else "--" + CONFIG_FLAG
        raise ConfigurationError(f"{place} names {named}, which is not a file.")
    return file


def _read(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text(encoding="utf-8-sig"))
    # Besides invalid TOML: numbers and nesting beyond what Python reads.
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigurationError(f"The configuration file {file} cannot be read: {error}.") from error
