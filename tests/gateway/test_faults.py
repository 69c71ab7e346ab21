"""Faults of the database under a server: known keys stay good, `/ready` says so, and no row is lost without a word."""

import asyncio
import os
import signal
import sqlite3
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, asynccontextmanager, closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path

import httpx
import psycopg
import pytest
from sqlalchemy import Engine, event, select
from structlog.testing import capture_logs
from tests.api.served import app_of, client_of
from tests.fakes import eventually
from tests.gateway.postgres import Server

from afterword.gateway import database as database_module
from afterword.gateway import ledger as ledger_module
from afterword.gateway import lookup_cache, stored_keys
from afterword.gateway.database import open_database
from afterword.gateway.interfaces import Gateway
from afterword.gateway.key import new_key
from afterword.gateway.key_store import KeyTerms, create_key
from afterword.gateway.opening import open_limiter
from afterword.gateway.schema import UsageTable
from afterword.gateway.static import SingleKey
from afterword.gateway.storage import open_storage

ASK = {"prompt": "hello ", "max_tokens": 3, "temperature": 0, "user": "x" * 512}

Fault = Callable[[Path | str], AbstractContextManager[None]]


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything that takes seconds takes a part of one."""
    monkeypatch.setattr(database_module, "BUSY_SECONDS", 1)
    for name, value in {
        "FRESH_SECONDS": 0.0,
        "PAUSE_SECONDS": 0.0,
        "REFRESH_SECONDS": 0.2,
        "FIRST_SECONDS": 0.2,
    }.items():
        monkeypatch.setattr(lookup_cache, name, value)
    for name, value in {"LINGER_SECONDS": 0.01, "RETRY_SECONDS": 0.01, "STUCK_SECONDS": 0.2}.items():
        monkeypatch.setattr(ledger_module, name, value)


@contextmanager
def removed(where: Path | str) -> Iterator[None]:
    away = Path(f"{where}.away")
    Path(where).rename(away)
    yield
    away.rename(where)


@contextmanager
def damaged(where: Path | str) -> Iterator[None]:
    """As a backup that was damaged, and is put in its place."""
    with removed(where):
        Path(where).write_bytes(b"x" * 100_000)
        yield


@contextmanager
def locked(where: Path | str) -> Iterator[None]:
    """By another process that writes."""
    with closing(sqlite3.connect(where, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield
        other.execute("ROLLBACK")


@contextmanager
def full(where: Path | str) -> Iterator[None]:
    """The disk: no file grows any more."""

    most_pages = 1

    def limit(connection: object, *_: object) -> None:
        if isinstance(connection, sqlite3.Connection):
            connection.execute(f"PRAGMA max_page_count = {most_pages}")

    event.listen(Engine, "checkout", limit)
    yield
    # For connections that were limited.
    most_pages = 1_000_000


@contextmanager
def locked_tables(where: Path | str) -> Iterator[None]:
    with psycopg.connect(str(where)) as other:
        other.execute("LOCK TABLE keys, usage IN ACCESS EXCLUSIVE MODE")
        yield
        other.rollback()


@contextmanager
def dropped_tables(where: Path | str) -> Iterator[None]:
    """Somebody has moved them away."""
    with psycopg.connect(str(where), autocommit=True) as other:
        for name in ("keys", "usage"):
            other.execute(f"ALTER TABLE {name} RENAME TO {name}_away")
        yield
        for name in ("keys", "usage"):
            other.execute(f"ALTER TABLE {name}_away RENAME TO {name}")


@asynccontextmanager
async def serving(where: Path | str, key: str, static: SingleKey | None = None) -> AsyncIterator[httpx.AsyncClient]:
    keys, ledger = open_storage(where, static, open_until_first_key=False)
    app = app_of(gateway=Gateway(keys, open_limiter(None), ledger))
    async with app.router.lifespan_context(app), client_of(app, authorization=f"Bearer {key}") as client:
        yield client


async def ready(client: httpx.AsyncClient, state: str) -> httpx.Response:
    """The answer of `/ready` once it says that of the database."""
    async with asyncio.timeout(20):
        while True:
            response = await client.get("/ready")
            if response.json()["database"] == state:
                return response


async def waiting(client: httpx.AsyncClient) -> int:
    text = (await client.get("/metrics")).text
    return int(float(text.split("\nafterword_ledger_rows_waiting ")[1].split("\n")[0]))


def n_rows(where: Path | str) -> int:
    with closing(open_database(where)) as database, database.reading() as connection:
        return len(connection.execute(select(UsageTable.number)).all())


FAULTS = [
    pytest.param("sqlite", removed, id="file removed"),
    pytest.param("sqlite", damaged, id="file damaged"),
    pytest.param("sqlite", locked, id="file locked"),
    pytest.param("sqlite", full, id="disk full"),
    pytest.param("postgresql", locked_tables, id="tables locked"),
    pytest.param("postgresql", dropped_tables, id="tables gone"),
]


@pytest.mark.parametrize(("kind", "fault"), FAULTS)
async def test_gate_11_known_keys_stay_good_and_rows_wait(prepared: Path | str, fault: Fault) -> None:
    with closing(open_database(prepared)) as database:
        key = create_key(database, KeyTerms("a"), datetime.now(UTC))
    n = 0
    with capture_logs() as logs:
        async with serving(prepared, key) as client:

            async def ask() -> None:
                nonlocal n
                n += 1
                assert (await client.post("/v1/completions", json=ASK)).status_code == 200

            await ask()
            await ready(client, "up")
            with fault(prepared):
                async with asyncio.timeout(20):
                    # A full disk still takes what fits into pages that are there.
                    while (await client.get("/ready")).json()["database"] == "up":
                        await ask()
                for _ in range(3):
                    await ask()
                down = await ready(client, "down")
                assert (down.status_code, down.json()["status"]) == (200, "ready")
                assert await waiting(client) > 0
                await eventually(lambda: any(line["event"] == "usage cannot be written" for line in logs))
            assert (await ready(client, "up")).status_code == 200
        assert n_rows(prepared) == n
    said = [line["event"] for line in logs if line["log_level"] != "info"]
    assert "usage cannot be written" in said
    assert "usage rows were dropped" not in said


@pytest.mark.parametrize("kind", ["sqlite"])
@pytest.mark.parametrize(
    ("static", "status"), [(None, 503), (SingleKey("operator"), 200)], ids=["stored keys", "static"]
)
async def test_gate_11_a_server_whose_keys_are_good_no_more_is_not_ready(
    prepared: Path, monkeypatch: pytest.MonkeyPatch, static: SingleKey | None, status: int
) -> None:
    with closing(open_database(prepared)) as database:
        key = create_key(database, KeyTerms("a"), datetime.now(UTC))
    for module in (lookup_cache, stored_keys):
        monkeypatch.setattr(module, "STALE_SECONDS", 0.05)
    async with serving(prepared, key, static) as client:
        assert (await client.get("/v1/models")).status_code == 200
        with removed(prepared):
            response = await ready(client, "lost" if static is None else "down")
            assert response.status_code == status
            while (refused := await client.get("/v1/models")).status_code == 200:
                pass
            assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
            operator = await client.get("/v1/models", headers={"authorization": "Bearer operator"})
            assert operator.status_code == (401 if static is None else 200)
        await ready(client, "up")
        assert (await client.get("/v1/models")).status_code == 200


@contextmanager
def frozen(server: Server) -> Iterator[None]:
    """A server whose processes stand still: connections are open, and nothing answers."""
    parent = int((server.home / "data" / "postmaster.pid").read_text().splitlines()[0])
    children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    pids = [parent, *map(int, children)]
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


async def test_gate_11_a_server_that_stands_still_holds_up_neither_requests_nor_the_end(
    postgres_server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    where = postgres_server.url
    monkeypatch.setattr(ledger_module, "CLOSING_SECONDS", 0.1)
    monkeypatch.setattr(ledger_module, "LAST_SECONDS", 0.1)
    monkeypatch.setattr(stored_keys, "CLOSING_SECONDS", 0.1)
    with closing(open_database(where)) as database:
        key = create_key(database, KeyTerms("a"), datetime.now(UTC))
    with capture_logs() as logs, ExitStack() as thawed_after:
        async with asyncio.timeout(20), serving(where, key) as client:
            assert (await client.post("/v1/completions", json=ASK)).status_code == 200
            while await waiting(client) > 0:
                pass
            # Until after the application has ended.
            thawed_after.enter_context(frozen(postgres_server))
            for _ in range(3):
                assert (await client.post("/v1/completions", json=ASK)).status_code == 200
            unknown = await client.get("/v1/models", headers={"authorization": f"Bearer {new_key('0' * 12)}"})
            assert unknown.status_code == 503
            assert (await ready(client, "down")).status_code == 200
    assert [line["rows"] for line in logs if line["event"] == "usage rows were dropped"] == [3]
    # What was being written may have been.
    assert 1 <= n_rows(where) <= 4
    # Its threads end once it answers again.
    await eventually(lambda: not any(thread.name.startswith(("ledger", "key")) for thread in threading.enumerate()))
