"""The ledger: every row once, whatever the database does, and requests never wait for it."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import structlog
from sqlalchemy import Connection, select
from tests.gateway.postgres import Server

from afterword.gateway import ledger
from afterword.gateway.database import Database, DatabaseDown, open_database
from afterword.gateway.interfaces import UsageRow
from afterword.gateway.ledger import StoredLedger
from afterword.gateway.schema import UsageTable

ROW = UsageRow(
    time=datetime(2026, 11, 29, 23, 59, 59, 999999, tzinfo=UTC),
    request_id="req_1",
    key_id="3fGh7JkLmN0p",
    account_id="acct_1",
    user="someone",
    model="local/echo",
    prompt_tokens=5,
    cached_tokens=4,
    completion_tokens=7,
    estimated=True,
    finish_reasons=("stop", "length"),
    latency=0.25,
    status=200,
)


def stored(where: Path | str) -> list[dict[str, Any]]:
    """The rows in the database, in the order they were taken."""
    database = open_database(where)
    with database.reading() as connection:
        rows = [
            dict(row) for row in connection.execute(select(UsageTable.__table__).order_by(UsageTable.number)).mappings()
        ]
    database.close()
    return rows


class Flaky(Database):
    """A database that is down while `down` is set, or that loses the connection after each of the first commits."""

    def __init__(self, real: Database, *, n_lost_commits: int = 0) -> None:
        self._real = real
        self._n_lost_commits = n_lost_commits
        self.down = threading.Event()
        self.asked_while_down = threading.Event()

    @property
    def dialect(self) -> str:
        return self._real.dialect

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        if self.down.is_set():
            self.asked_while_down.set()
            raise DatabaseDown("it is down")
        with self._real.writing() as connection:
            yield connection
        if self._n_lost_commits > 0:
            self._n_lost_commits -= 1
            raise DatabaseDown("the connection was lost")

    def close(self) -> None:
        self._real.close()


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger, "RETRY_SECONDS", 0.01)


async def test_what_was_written_is_on_disk_once_it_is_closed(prepared: Path | str) -> None:
    kept = StoredLedger(open_database(prepared))
    nobody = replace(ROW, request_id="req_2", key_id=None, account_id=None, user=None, finish_reasons=(), status=499)
    kept.write(ROW)
    kept.write(nobody)
    await kept.aclose()
    first, second = stored(prepared)
    assert {name: first[name] for name in ROW.__slots__} == {
        name: list(value) if isinstance(value := getattr(ROW, name), tuple) else value for name in ROW.__slots__
    }
    assert (second["key_id"], second["account_id"], second["user"], second["finish_reasons"]) == (None, None, None, [])
    assert (first["number"], second["number"], first["writer"] == second["writer"]) == (0, 1, True)


async def test_rows_reach_the_disk_without_anybody_closing_anything(prepared: Path | str) -> None:
    kept = StoredLedger(open_database(prepared))
    kept.write(ROW)
    while not stored(prepared):
        pass
    await kept.aclose()


async def test_more_rows_than_a_batch_are_all_kept_in_order(prepared: Path | str) -> None:
    kept = StoredLedger(open_database(prepared))
    n_rows = 2 * ledger.MAX_BATCH + 1
    for number in range(n_rows):
        kept.write(replace(ROW, prompt_tokens=number))
    await kept.aclose()
    assert [row["prompt_tokens"] for row in stored(prepared)] == list(range(n_rows))


async def test_the_same_request_id_twice_is_two_rows(prepared: Path | str) -> None:
    for _ in range(2):
        kept = StoredLedger(open_database(prepared))
        kept.write(ROW)
        kept.write(ROW)
        await kept.aclose()
    assert len(stored(prepared)) == 4


async def test_a_commit_that_may_or_may_not_have_happened_is_sent_again_without_doubling(prepared: Path | str) -> None:
    kept = StoredLedger(Flaky(open_database(prepared), n_lost_commits=2))
    kept.write(ROW)
    await kept.aclose()
    assert len(stored(prepared)) == 1


async def test_rows_wait_while_the_database_is_down(prepared: Path | str) -> None:
    flaky = Flaky(open_database(prepared))
    flaky.down.set()
    kept = StoredLedger(flaky)
    with structlog.testing.capture_logs() as lines:
        kept.write(ROW)
        flaky.asked_while_down.wait()
        kept.write(ROW)
        flaky.down.clear()
        await kept.aclose()
    assert len(stored(prepared)) == 2
    assert [(line["event"], line["log_level"]) for line in lines] == [
        ("usage cannot be written", "warning"),
        ("usage is written again", "info"),
    ]


async def test_gate_11_rows_wait_for_a_file_that_was_removed(tmp_path: Path) -> None:
    file, away = tmp_path / "a.db", tmp_path / "away.db"
    database = open_database(file)
    database.close()
    file.rename(away)
    with structlog.testing.capture_logs() as logs:
        stores = StoredLedger(database)
        stores.write(ROW)
        while not logs:
            await asyncio.sleep(0.001)
        away.rename(file)
        await stores.aclose()
    assert [line["event"] for line in logs] == ["usage cannot be written", "usage is written again"]
    assert len(stored(file)) == 1


async def test_rows_beyond_the_limit_are_dropped_and_counted(
    prepared: Path | str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledger, "MAX_WAITING", 3)
    flaky = Flaky(open_database(prepared))
    flaky.down.set()
    kept = StoredLedger(flaky)
    with structlog.testing.capture_logs() as lines:
        kept.write(ROW)
        flaky.asked_while_down.wait()
        for _ in range(10):
            kept.write(ROW)
        flaky.down.clear()
        await kept.aclose()
    # One was being written, three waited.
    assert len(stored(prepared)) == 4
    assert sum(line["rows"] for line in lines if line["event"] == "usage rows were dropped") == 7


async def test_closing_does_not_wait_for_ever_for_a_database_that_is_down(
    prepared: Path | str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledger, "CLOSING_SECONDS", 0.05)
    flaky = Flaky(open_database(prepared))
    flaky.down.set()
    kept = StoredLedger(flaky)
    with structlog.testing.capture_logs() as lines:
        for _ in range(3):
            kept.write(ROW)
        await kept.aclose()
    assert sum(line["rows"] for line in lines if line["event"] == "usage rows were dropped") == 3


async def test_a_row_that_comes_after_the_end_is_named_in_the_log(prepared: Path | str) -> None:
    kept = StoredLedger(open_database(prepared))
    await kept.aclose()
    with structlog.testing.capture_logs() as lines:
        kept.write(ROW)
    assert [(line["event"], line["request_id"]) for line in lines] == [("a usage row came too late", "req_1")]


async def test_a_row_that_no_database_takes_goes_missing_alone(prepared: Path | str) -> None:
    kept = StoredLedger(open_database(prepared))
    with structlog.testing.capture_logs() as lines:
        for n_tokens in (1, 2**70, 3):
            kept.write(replace(ROW, prompt_tokens=n_tokens, request_id=f"req_{n_tokens}"))
        await kept.aclose()
    assert [row["prompt_tokens"] for row in stored(prepared)] == [1, 3]
    assert [(line["event"], line["request_id"]) for line in lines] == [("a usage row was refused", f"req_{2**70}")]


@pytest.mark.parametrize(
    ("user", "kept_as"),
    [
        pytest.param("a\0b", "a\N{REPLACEMENT CHARACTER}b", id="NUL"),
        pytest.param("a\ud800b", "a?b", id="half of a pair"),
        pytest.param("日本語 😀", "日本語 😀", id="other scripts"),
        pytest.param("x" * 100_000, "x" * 512, id="very long"),
        pytest.param("", "", id="empty"),
    ],
)
async def test_any_user_can_be_kept(prepared: Path | str, user: str, kept_as: str) -> None:
    kept = StoredLedger(open_database(prepared))
    kept.write(replace(ROW, user=user))
    await kept.aclose()
    assert [row["user"] for row in stored(prepared)] == [kept_as]


async def test_a_server_that_is_restarted_loses_no_rows(postgres_server: Server) -> None:
    kept = StoredLedger(open_database(postgres_server.url))
    kept.write(ROW)
    while not stored(postgres_server.url):
        pass
    postgres_server.stop()
    kept.write(ROW)
    postgres_server.start()
    kept.write(ROW)
    await kept.aclose()
    assert len(stored(postgres_server.url)) == 3
