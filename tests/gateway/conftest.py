"""Fixtures for tests of the gateway: a clock to set, a Redis, and an empty database of each kind for each test."""

import itertools
import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psycopg
import pytest
from redis import Redis
from tests.gateway.clock import Clock
from tests.gateway.postgres import Server, programs, running_server
from tests.gateway.redis_server import free_port, run_redis

from afterword.gateway.database import Database, open_database

_numbers = itertools.count()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The wall clock of this process, which stands still unless a test moves it."""
    made = Clock()
    monkeypatch.setattr("time.time", made)
    return made


@pytest.fixture(scope="session")
def _redis_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with run_redis(tmp_path_factory.mktemp("redis"), free_port()) as url:
        yield url


@pytest.fixture
def redis_url(_redis_server: str) -> str:
    """A Redis with nothing in it."""
    with Redis.from_url(_redis_server) as client:
        client.flushall()
    return _redis_server


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """The URL of a PostgreSQL server's database, for all tests."""
    with running_server(installed()) as server:
        yield server.url


@pytest.fixture
def postgres_server() -> Iterator[Server]:
    """A PostgreSQL server for one test, which may stop it."""
    with running_server(installed()) as server:
        yield server


def installed() -> Path:
    """Where the programs of PostgreSQL are; without them the test is skipped."""
    folder = programs()
    if folder is None:
        pytest.skip("PostgreSQL is not installed")
    return folder


@pytest.fixture
def where(request: pytest.FixtureRequest, kind: str, tmp_path: Path) -> Path | str:
    """Where an empty database without tables is, or will be."""
    if kind == "sqlite":
        return tmp_path / "afterword.db"
    return _new_schema(request.getfixturevalue("postgres"))


@pytest.fixture(params=["sqlite", "postgresql"])
def kind(request: pytest.FixtureRequest) -> str:
    """Each kind of database."""
    name: str = request.param
    return name


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with empty tables, to be copied: making them anew for each test takes most of its time."""
    file = tmp_path_factory.mktemp("template") / "afterword.db"
    open_database(file).close()
    return file


@pytest.fixture(scope="session")
def postgres_tables(postgres: str) -> str:
    """The URL of a schema with tables, to be emptied before use."""
    url = _new_schema(postgres)
    open_database(url).close()
    return url


@pytest.fixture
def prepared(request: pytest.FixtureRequest, kind: str, tmp_path: Path) -> Path | str:
    """Where a database with empty tables is."""
    if kind == "sqlite":
        return Path(shutil.copy(request.getfixturevalue("sqlite_template"), tmp_path / "afterword.db"))
    url: str = request.getfixturevalue("postgres_tables")
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("TRUNCATE accounts, keys, usage")
    return url


@pytest.fixture
def database(prepared: Path | str) -> Iterator[Database]:
    """An open database with empty tables."""
    with closing(open_database(prepared)) as opened:
        yield opened


def _new_schema(server: str) -> str:
    name = f"test_{next(_numbers)}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {name}")
    return f"{server}?options=-csearch_path%3D{name}"
