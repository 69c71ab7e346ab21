"""What state the database and the Redis of a configuration are in, for the doctor. Changes nothing; blocks."""

from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from redis import Redis
from redis.exceptions import RedisError
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from afterword.gateway.database import Database, DatabaseDown, existing_database
from afterword.gateway.key_store import n_live_keys
from afterword.gateway.limiter_shared import TIMEOUT
from afterword.gateway.migrate import is_current


@dataclass(frozen=True, slots=True)
class DatabaseState:
    """What was found."""

    name: str
    """Its path or URL, without a password."""
    is_current: bool
    """No migration is missing."""
    n_live_keys: int
    """0 before the first migration."""
    not_writable: str | None
    """Why it cannot be written; None: it can."""


def inspect_database(where: Path | str, now: datetime) -> DatabaseState | None:
    """The state of the database, None if it is a file that is not there yet.

    Raises `ConfigurationError` and `DatabaseDown`.
    """
    database = existing_database(where)
    if database is None:
        return None
    with closing(database):
        with database.reading() as connection:
            current = is_current(connection)
        return DatabaseState(
            database.name, current, n_live_keys(database, now) if current else 0, _why_not_writable(database)
        )


def _why_not_writable(database: Database) -> str | None:
    """Whether a table could be made: tries it, and takes it back."""
    try:
        with database.writing() as connection:
            connection.execute(text("CREATE TABLE afterword_writable (number INTEGER)"))
            connection.rollback()
    except (DatabaseDown, DBAPIError) as error:
        return str(error).splitlines()[0]
    return None


def inspect_redis(url: str) -> str | None:
    """Why the Redis at `url` cannot be used; None: it can."""
    try:
        with closing(Redis.from_url(url, socket_timeout=TIMEOUT, socket_connect_timeout=TIMEOUT)) as redis:
            redis.ping()
    except (RedisError, OSError, ValueError) as error:
        return str(error)
    return None
