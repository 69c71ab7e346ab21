"""The tables and how they come about."""

import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import inspect, text

from afterword.errors import ConfigurationError
from afterword.gateway.database import Database, open_database
from afterword.gateway.migrate import VERSION_TABLE
from afterword.gateway.schema import Base

SOURCES = Path(__file__).resolve().parents[2] / "src"

OPEN = """
import pathlib, sys
from afterword.gateway.database import open_database
where = sys.argv[1]
sys.stdin.read()
open_database(where if "://" in where else pathlib.Path(where)).close()
"""


def test_what_the_steps_make_is_what_the_models_say(database: Database) -> None:
    with database.reading() as connection:
        options = {"version_table": VERSION_TABLE, "compare_server_default": True}
        assert compare_metadata(MigrationContext.configure(connection, opts=options), Base.metadata) == []
        assert set(inspect(connection).get_table_names()) == {"accounts", "keys", "usage", VERSION_TABLE}


def test_opening_again_changes_nothing(where: Path | str) -> None:
    for _ in range(2):
        with closing(open_database(where)) as database, database.reading() as connection:
            assert connection.scalar(text(f"SELECT version_num FROM {VERSION_TABLE}")) == "0003"


def test_a_database_of_a_newer_version_is_refused(where: Path | str) -> None:
    with closing(open_database(where)) as database, database.writing() as connection:
        connection.execute(text(f"UPDATE {VERSION_TABLE} SET version_num = '9999'"))
    with pytest.raises(ConfigurationError) as caught:
        open_database(where)
    assert str(caught.value).startswith(
        "The database was made by a newer version of this program: its tables are at step 9999, and this version "
        "knows the steps up to 0003."
    )


def test_what_was_there_before_has_the_ordinary_priority(where: Path | str) -> None:
    with closing(open_database(where)) as database, database.writing() as connection:
        connection.execute(text("ALTER TABLE accounts DROP COLUMN priority"))
        for column in ("priority", "concurrent_tokens"):
            connection.execute(text(f"ALTER TABLE keys DROP COLUMN {column}"))
        connection.execute(text(f"UPDATE {VERSION_TABLE} SET version_num = '0002'"))
        connection.execute(text("INSERT INTO accounts (id, name, created) VALUES ('acct_1', 'old', '2026-01-01')"))
    with closing(open_database(where)) as database, database.reading() as connection:
        assert connection.scalar(text("SELECT priority FROM accounts")) == 0


def test_another_program_s_version_table_is_not_taken_for_ours(where: Path | str) -> None:
    with closing(open_database(where)) as database, database.writing() as connection:
        connection.execute(text("CREATE TABLE alembic_version (version_num VARCHAR(32))"))
        connection.execute(text("INSERT INTO alembic_version VALUES ('theirs')"))
    open_database(where).close()


def test_processes_that_start_at_once_do_not_collide(where: Path | str) -> None:
    command = [sys.executable, "-c", OPEN, str(where)]
    environment = {"PYTHONPATH": str(SOURCES)}
    processes = [
        subprocess.Popen(command, env=environment, text=True, stdin=subprocess.PIPE, stderr=subprocess.PIPE)
        for _ in range(3)
    ]
    for process in processes:
        assert process.stdin is not None
        process.stdin.close()
    for process in processes:
        with process:
            assert process.stderr is not None
            said = process.stderr.read()
        assert (process.returncode, said) == (0, "")
