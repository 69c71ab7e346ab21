"""The database that the configuration names, for the commands about keys, accounts and usage."""

import os
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from afterword.cli.options import setting_options
from afterword.config.load import CONFIG_FLAG, load_config
from afterword.errors import ConfigurationError
from afterword.gateway.database import Database, open_database

DATABASE = "database"
DATABASE_OPTIONS = setting_options([DATABASE])


@contextmanager
def opened(values: Mapping[str, Any]) -> Iterator[Database]:
    """The database of a command's options, closed at the end. Raises `ConfigurationError`."""
    # Only these two: other options of these commands share a name with a setting.
    flags = {name: values[name] for name in (CONFIG_FLAG, DATABASE)}
    where = load_config(flags, os.environ, Path.cwd()).gateway.database
    if where is None:
        raise ConfigurationError("database is none, so there is nothing to look at or to change: name one.")
    with closing(open_database(where)) as database:
        yield database
