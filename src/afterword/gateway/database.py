"""The database: opened, brought up to date, and used in transactions. SQLite in a file, or PostgreSQL by URL.

Knows no table. Everything here blocks: it is for threads, never for the event loop.
"""

import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError, DataError, DBAPIError, IntegrityError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from afterword.errors import AfterwordError, ConfigurationError
from afterword.gateway.migrate import upgrade

BUSY_SECONDS = 10
"""How long a write waits for another process's on SQLite."""

CONNECT_SECONDS = 5
"""How long a PostgreSQL server may take to accept."""

UNHEARD_SECONDS = 10
"""How long data sent to a PostgreSQL server may stay unacknowledged before the connection counts as lost; and how long
it may be silent before its kernel is asked whether it is there."""


class DatabaseDown(AfterwordError):
    """The database cannot be read or written at the moment; it may be later."""


_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)

_OF_ROWS = (DataError, IntegrityError)
"""Errors of what is written, not of the database."""

_FileId = tuple[int, int] | None
"""Device and inode; None of a server."""

_NO_FILE = (0, 0)


class Database:
    """A pool of connections. Safe to use from several threads."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._file = self._file_now()

    @property
    def name(self) -> str:
        """Its name in messages: its path or its URL, without the password."""
        url = self._engine.url
        return str(url.database) if url.get_backend_name() == "sqlite" else url.render_as_string(hide_password=True)

    @property
    def dialect(self) -> str:
        """`sqlite` or `postgresql`."""
        return self._engine.dialect.name

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A transaction that only reads. Raises `DatabaseDown`."""
        self._check_file()
        with _translating(self.name), self._engine.connect() as connection:
            yield connection

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """A transaction that writes, committed at the end unless an error leaves it. Raises `DatabaseDown`.

        On SQLite it takes the write lock at its beginning: a transaction that reads first and then finds the file
        changed would fail at its first write, without waiting.
        """
        file = self._check_file()
        with _translating(self.name), self._engine.connect() as connection:
            connection.execution_options(sqlite_begin="BEGIN IMMEDIATE")
            with connection.begin():
                yield connection
        if self._file_now() != file:
            raise DatabaseDown(f"The file of the database {self.name} was removed while it was written to.")

    def _check_file(self) -> _FileId:
        """Which file is open. SQLite itself goes on with one that was removed, and what it writes there is lost.

        Raises `DatabaseDown` if it is not at its place; once for another one that is there now, which is used then.
        """
        now = self._file_now()
        if now != self._file or now == _NO_FILE:
            self._engine.dispose()
            self._file = now
            what = "is not there any more" if now == _NO_FILE else "is another one than before"
            raise DatabaseDown(f"The file of the database {self.name} {what}.")
        return now

    def _file_now(self) -> _FileId:
        if self.dialect != "sqlite":
            return None
        try:
            found = os.stat(self.name)
        except OSError:
            return _NO_FILE
        return found.st_dev, found.st_ino

    def limit_locks(self) -> None:
        """Wait for others' locks on PostgreSQL no longer than on SQLite. Not before the tables are up to date: servers
        that start at once wait for each other."""
        event.listen(self._engine, "connect", _limit_locks)
        self._engine.dispose()

    def close(self) -> None:
        """Close the connections."""
        self._engine.dispose()


def open_database(where: Path | str) -> Database:
    """The database at the path of a SQLite file (created if missing) or at a URL, its tables up to date.

    Raises `ConfigurationError`.
    """
    url = _url(where)
    if url.get_backend_name() == "sqlite":
        _make_file(Path(str(url.database)))
    engine = _engine(url)
    database = Database(engine)
    try:
        if database.dialect == "sqlite":
            _use_write_ahead_log(engine)
        with database.writing() as connection:
            upgrade(connection)
        if database.dialect == "postgresql":
            database.limit_locks()
    except (DatabaseDown, DBAPIError) as error:
        database.close()
        raise ConfigurationError(f"The database {database.name} cannot be opened: {_reason(error)}.") from error
    except BaseException:
        database.close()
        raise
    return database


def existing_database(where: Path | str) -> Database | None:
    """The database as it is, which may lack tables; None if it is a file that is not there. Makes and changes nothing.

    Raises `ConfigurationError` for a URL that cannot be one.
    """
    url = _url(where)
    if url.get_backend_name() == "sqlite" and not Path(str(url.database)).exists():
        return None
    return Database(_engine(url))


def _engine(url: URL) -> Engine:
    return _sqlite(url) if url.get_backend_name() == "sqlite" else _postgresql(url)


def _url(where: Path | str) -> URL:
    if isinstance(where, Path):
        return URL.create("sqlite", database=str(where))
    try:
        url = make_url(where)
    except (ArgumentError, ValueError):
        raise ConfigurationError(
            "database is a URL that cannot be read: it must be like postgresql://user:password@host:5432/name, with "
            "special characters in the password written as %40 and so on."
        ) from None
    match url.drivername:
        case "sqlite":
            if url.database in (None, "", ":memory:"):
                raise ConfigurationError("database is an SQLite URL without a file: name one, or say none.")
            return url
        case "postgres" | "postgresql" | "postgresql+psycopg":
            return url.set(drivername="postgresql+psycopg")
    raise ConfigurationError(
        f"database is a URL of the kind {url.drivername!r}: it must be sqlite:///PATH or postgresql://HOST/NAME."
    )


def _postgresql(url: URL) -> Engine:
    arguments = {
        "connect_timeout": CONNECT_SECONDS,
        "tcp_user_timeout": UNHEARD_SECONDS * 1000,
        "keepalives_idle": UNHEARD_SECONDS,
        "application_name": "afterword",
    }
    given = {name: value for name, value in arguments.items() if name not in url.query}
    return create_engine(url, pool_pre_ping=True, connect_args=given)


def _make_file(file: Path) -> None:
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # SQLite gives its side files the permissions of the main one, so none of them is readable for others.
        with suppress(FileExistsError):
            os.close(os.open(file, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    except OSError as error:
        raise ConfigurationError(
            f"The database {file} cannot be made: {error.strerror}. Name another file with --database or "
            "AFTERWORD_DATABASE, or say none to keep neither keys nor a ledger."
        ) from error


def _limit_locks(connection: Any, record: object) -> None:  # noqa: ARG001 - the event's signature
    connection.execute(f"SET lock_timeout = '{BUSY_SECONDS}s'")
    connection.commit()


def _sqlite(url: URL) -> Engine:
    engine = create_engine(url, connect_args={"timeout": BUSY_SECONDS})
    event.listen(engine, "connect", _prepare_sqlite)
    event.listen(engine, "begin", _begin_sqlite)
    return engine


def _prepare_sqlite(connection: sqlite3.Connection, record: object) -> None:  # noqa: ARG001 - the event's signature
    # Else Python's module begins transactions by itself, and none around changes of tables.
    connection.isolation_level = None
    connection.execute("PRAGMA foreign_keys = ON")


def _begin_sqlite(connection: Connection) -> None:
    connection.exec_driver_sql(connection.get_execution_options().get("sqlite_begin", "BEGIN"))


def _use_write_ahead_log(engine: Engine) -> None:
    """Let readers and the one writer work at the same time; the setting is kept in the file.

    The change needs exclusive access, for which SQLite does not wait, so this does. Where the file system does not
    support it the file stays as it is, which works too.
    """
    deadline = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            with closing(engine.raw_connection()) as connection:
                connection.cursor().execute("PRAGMA journal_mode = WAL")
                return
        except sqlite3.DatabaseError as error:
            if "locked" not in str(error) or time.monotonic() > deadline:
                raise DatabaseDown(str(error)) from error
            time.sleep(0.05)


@contextmanager
def _translating(name: str) -> Iterator[None]:
    try:
        yield
    except (OperationalError, sqlite3.OperationalError) as error:
        raise DatabaseDown(f"The database {name} does not answer: {_reason(error)}.") from error
    except DBAPIError as error:
        if error.connection_invalidated:
            raise DatabaseDown(f"The connection to the database {name} was lost.") from error
        if getattr(error.orig, "sqlite_errorcode", 0) & 0xFF in _DAMAGED:
            raise DatabaseDown(f"The database {name} is damaged: {_reason(error)}.") from error
        if isinstance(error, _OF_ROWS):
            raise
        raise DatabaseDown(f"The database {name} cannot do it: {_reason(error)}.") from error
    except PoolTimeout as error:
        raise DatabaseDown(f"The database {name} does not answer: all connections are waiting.") from error


def _reason(error: BaseException) -> str:
    """The first line of the database's own message."""
    origin: Any = error
    while isinstance(origin, DatabaseDown | DBAPIError):
        below = origin.orig if isinstance(origin, DBAPIError) else origin.__cause__
        if below is None:
            break
        origin = below
    lines = str(origin).strip().splitlines() or [type(origin).__name__]
    return lines[0].rstrip(".")
