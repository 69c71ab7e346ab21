"""The state of a database and of a Redis, found out without changing either."""

import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest
from sqlalchemy import inspect, text
from tests.gateway.redis_server import free_port

from afterword.errors import ConfigurationError
from afterword.gateway import database as module
from afterword.gateway.database import Database, DatabaseDown, existing_database, open_database
from afterword.gateway.inspection import inspect_database, inspect_redis
from afterword.gateway.key_store import KeyTerms, create_key
from afterword.gateway.migrate import VERSION_TABLE

NOW = datetime(2026, 5, 1, tzinfo=UTC)


def test_a_database_with_tables_and_a_key(prepared: Path | str, database: Database) -> None:
    create_key(database, KeyTerms("a"), NOW)
    state = inspect_database(prepared, NOW)
    assert state is not None
    assert (state.is_current, state.n_live_keys, state.not_writable) == (True, 1, None)
    assert state.name == database.name
    with database.reading() as connection:
        assert set(inspect(connection).get_table_names()) == {"accounts", "keys", "usage", VERSION_TABLE}


def test_a_file_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    assert inspect_database(tmp_path / "new.db", NOW) is None
    assert list(tmp_path.iterdir()) == []


def test_an_older_database_is_not_updated(where: Path | str) -> None:
    if isinstance(where, Path):
        where.touch()
    state = inspect_database(where, NOW)
    assert state is not None
    assert (state.is_current, state.n_live_keys, state.not_writable) == (False, 0, None)
    found = existing_database(where)
    assert found is not None
    with closing(found), found.reading() as connection:
        assert inspect(connection).get_table_names() == []


def test_a_newer_database_is_refused(where: Path | str) -> None:
    with closing(open_database(where)) as database, database.writing() as connection:
        connection.execute(text(f"UPDATE {VERSION_TABLE} SET version_num = '9999'"))
    with pytest.raises(ConfigurationError, match="made by a newer version"):
        inspect_database(where, NOW)


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    file = tmp_path / "afterword.db"
    file.write_bytes(b"no database" * 1000)
    with pytest.raises(DatabaseDown, match=f"The database {file} "):
        inspect_database(file, NOW)


def test_a_file_that_is_locked_is_not_writable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "afterword.db"
    open_database(file).close()
    monkeypatch.setattr(module, "BUSY_SECONDS", 0.01)
    with closing(sqlite3.connect(file, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        state = inspect_database(file, NOW)
    assert state is not None
    assert state.not_writable == f"The database {file} does not answer: database is locked."


def test_a_server_that_does_not_answer_is_named_without_its_password() -> None:
    with pytest.raises(DatabaseDown) as caught:
        inspect_database(f"postgresql://user:secret@127.0.0.1:{free_port()}/none", NOW)
    assert "127.0.0.1" in str(caught.value)
    assert "secret" not in str(caught.value)


def test_a_redis_answers_or_not(redis_url: str) -> None:
    assert inspect_redis(redis_url) is None
    problem = inspect_redis(f"redis://:secret@127.0.0.1:{free_port()}")
    assert problem is not None
    assert "Connection refused" in problem
    assert "secret" not in problem
