"""The database that the configuration names, for the commands about keys, accounts and usage."""

from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from typing import Any

from afterword.cli.configuration import configuration
from afterword.cli.options import setting_options
from afterword.config.load import CONFIG_FLAG
from afterword.errors import ConfigurationError
from afterword.gateway.database import Database, open_database

DATABASE = "database"
DATABASE_OPTIONS = setting_options([DATABASE])


@contextmanager
def opened(values: Mapping[str, Any]) -> Iterator[Database]:
    """The database of a command's options, closed at the end. Raises `ConfigurationError`."""
    # Only these two: other options of these commands share a name with a setting.
    flags = {name: values[name] for name in (CONFIG_FLAG, DATABASE)}
    where = configuration(flags).gateway.database
    if where is None:
        raise ConfigurationError("database is none, so there is nothing to look at or to change: name one.")
    with closing(open_database(where)) as database:
        yield database
