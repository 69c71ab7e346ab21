"""The database: where it may be, who may read it, and what happens when it is not there."""

import threading
from contextlib import closing, suppress
from pathlib import Path

import pytest
from sqlalchemy import text
from tests.gateway.postgres import Server

from afterword.errors import ConfigurationError
from afterword.gateway.database import Database, DatabaseDown, open_database

COUNT = text("SELECT count(*) FROM accounts")
ADD = text("INSERT INTO accounts (id, name, created) VALUES (:name, :name, '2026-01-01 00:00:00')")


def test_a_new_file_and_what_lies_beside_it_are_for_its_owner_only(tmp_path: Path) -> None:
    file = tmp_path / "a" / "b" / "afterword.db"
    with closing(open_database(file)) as database, database.writing() as connection:
        connection.execute(ADD, {"name": "a"})
        modes = {path.name: path.stat().st_mode & 0o777 for path in file.parent.iterdir()}
    assert modes == {"afterword.db": 0o600, "afterword.db-wal": 0o600, "afterword.db-shm": 0o600}
    assert file.parent.stat().st_mode & 0o777 == 0o700


def test_readers_of_a_file_do_not_wait_for_its_writer(tmp_path: Path) -> None:
    with closing(open_database(tmp_path / "a.db")) as database, database.writing() as writing:
        writing.execute(ADD, {"name": "a"})
        with database.reading() as reading:
            assert reading.scalar(COUNT) == 0


def test_writers_take_turns_even_if_they_read_first(database: Database) -> None:
    both_ready = threading.Barrier(2)

    def count_and_add(name: str) -> None:
        both_ready.wait()
        with database.writing() as connection:
            connection.scalar(COUNT)
            connection.execute(ADD, {"name": name})

    threads = [threading.Thread(target=count_and_add, args=(name,)) for name in ("a", "b")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with database.reading() as connection:
        assert connection.scalar(COUNT) == 2


def test_a_transaction_that_an_error_leaves_has_changed_nothing(database: Database) -> None:
    with suppress(RuntimeError), database.writing() as connection:
        connection.execute(ADD, {"name": "a"})
        raise RuntimeError("on purpose")
    with database.reading() as connection:
        assert connection.scalar(COUNT) == 0


def test_a_database_is_called_by_its_path_or_by_its_url_without_the_password(tmp_path: Path, postgres: str) -> None:
    file = tmp_path / "a.db"
    with closing(open_database(f"sqlite:///{file}")) as database:
        assert (database.name, database.dialect) == (str(file), "sqlite")
    with closing(open_database(postgres.replace("tests@", "tests:secret@"))) as database:
        assert database.name.startswith("postgresql+psycopg://tests:***@127.0.0.1:")
        assert database.dialect == "postgresql"


@pytest.mark.parametrize(
    ("url", "message"),
    [
        pytest.param("mysql://h/n", "database is a URL of the kind 'mysql': it must be sqlite:///PATH or", id="kind"),
        pytest.param("postgresql+asyncpg://h/n", "database is a URL of the kind 'postgresql+asyncpg'", id="driver"),
        pytest.param("sqlite://", "database is an SQLite URL without a file", id="in memory"),
        pytest.param("sqlite:///:memory:", "database is an SQLite URL without a file", id="in memory, said so"),
        pytest.param("postgresql://me:secret@h:port/n", "database is a URL that cannot be read", id="port"),
        pytest.param(
            "postgresql://me:secret@127.0.0.1:1/n",
            "The database postgresql+psycopg://me:***@127.0.0.1:1/n",
            id="nobody there",
        ),
    ],
)
def test_a_url_that_will_not_do_is_refused_without_telling_its_password(url: str, message: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        open_database(url)
    assert str(caught.value).startswith(message)
    assert "secret" not in str(caught.value)


def test_a_file_that_is_no_database_is_named(tmp_path: Path) -> None:
    file = tmp_path / "a.db"
    file.write_text("This is a letter, and long enough to be read as the head of a database. " * 20)
    with pytest.raises(ConfigurationError) as caught:
        open_database(file)
    assert str(caught.value) == f"The database {file} cannot be opened: file is not a database."


def test_a_folder_that_cannot_be_made_is_refused_with_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    with pytest.raises(ConfigurationError) as caught:
        open_database(tmp_path / "a" / "b.db")
    assert "cannot be made" in str(caught.value)
    assert "Name another file with --database or AFTERWORD_DATABASE, or say none" in str(caught.value)


def test_gate_11_a_file_that_is_damaged_is_down(tmp_path: Path) -> None:
    file = tmp_path / "a.db"
    with closing(open_database(file)) as database:
        database.close()
        file.write_bytes(b"x" * file.stat().st_size)
        with (
            pytest.raises(DatabaseDown, match=r"a\.db is damaged: file is not a database"),
            database.reading() as connection,
        ):
            connection.scalar(COUNT)


def test_gate_11_a_file_that_is_removed_is_down_until_it_is_back(tmp_path: Path) -> None:
    file = tmp_path / "a.db"
    with closing(open_database(file)) as database:
        with database.writing() as connection:
            connection.execute(ADD, {"name": "a"})
        database.close()
        file.rename(tmp_path / "b.db")
        for _ in range(2):
            with pytest.raises(DatabaseDown, match="is not there any more"), database.writing():
                pass
        assert not file.exists()
        (tmp_path / "b.db").rename(file)
        with pytest.raises(DatabaseDown, match="is another one than before"), database.reading():
            pass
        with database.reading() as connection:
            assert connection.scalar(COUNT) == 1


def test_gate_11_a_file_that_is_removed_under_a_writer_is_down(tmp_path: Path) -> None:
    file = tmp_path / "a.db"
    with closing(open_database(file)) as database, pytest.raises(DatabaseDown), database.writing():
        file.unlink()


def test_a_server_that_goes_away_is_told_from_a_mistake_and_used_again_when_it_is_back(
    postgres_server: Server,
) -> None:
    with closing(open_database(postgres_server.url)) as database:
        postgres_server.stop()
        with pytest.raises(DatabaseDown, match="does not answer"), database.reading():
            pass
        postgres_server.start()
        with database.reading() as connection:
            assert connection.scalar(COUNT) == 0


def test_a_server_that_goes_away_in_the_middle_is_down_too(postgres_server: Server) -> None:
    def stop_and_add() -> None:
        with database.writing() as connection:
            postgres_server.stop()
            connection.execute(ADD, {"name": "a"})

    with closing(open_database(postgres_server.url)) as database, pytest.raises(DatabaseDown):
        stop_and_add()
