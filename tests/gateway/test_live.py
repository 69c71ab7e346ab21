"""A live server on a database: what the ledger holds is what the answers said, and little is lost when it is killed."""

import asyncio
import itertools
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
from sqlalchemy import select, text
from tests.live import run_server

from afterword.api.app import create_app
from afterword.config.load import load_config
from afterword.config.tree import ServerConfig
from afterword.engine.echo import EchoEngine
from afterword.gateway.database import Database, open_database
from afterword.gateway.key import id_of
from afterword.gateway.key_store import KeyTerms, create_key, list_keys, revoke_key
from afterword.gateway.opening import open_gateway
from afterword.gateway.schema import UsageTable
from afterword.registry import Registry, ServedModel

SOURCES = Path(__file__).resolve().parents[2] / "src"
SERVE = [sys.executable, "-c", "from afterword.cli.main import app; app()", "serve", "--model", "echo", "--port", "0"]

N_REQUESTS = 200

BODIES: list[dict[str, Any]] = [
    {"prompt": "one two three", "max_tokens": 7},
    {"prompt": ["a", "b c", "d e f"], "max_tokens": 5, "n": 2},
    {"prompt": "one two three", "max_tokens": 9, "best_of": 3, "seed": 1},
    {"prompt": [1, 2, 3, 4], "max_tokens": 0, "echo": True, "logprobs": 1},
    {"prompt": "one two", "max_tokens": 12, "stream": True, "stream_options": {"include_usage": True}},
    {"prompt": ["x", "y"], "n": 2, "max_tokens": 6, "stream": True, "stream_options": {"include_usage": True}},
]
"""Each kind of request, by turns: plain, batch, ranked, scored, streamed."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a client knows of one request."""

    request_id: str
    key_id: str
    user: str
    usage: dict[str, Any]

    def facts(self) -> tuple[object, ...]:
        cached = self.usage["prompt_tokens_details"]["cached_tokens"]
        tokens = (self.usage["prompt_tokens"], cached, self.usage["completion_tokens"])
        return (self.request_id, self.key_id, self.user, *tokens)


@contextmanager
def serving(where: Path | str) -> Iterator[str]:
    """The base URL of a server with an echo model and the keys of a database; stopped in good order."""
    config = load_config({"database": str(where), "model": "echo"}, {}, Path("/"))
    registry = Registry([ServedModel("echo", EchoEngine(), 0)])
    with run_server(create_app(registry, ServerConfig(), open_gateway(config))) as url:
        yield url


async def complete(client: httpx.AsyncClient, key: str, body: dict[str, Any], number: int) -> Answer:
    """One request, its usage read from the body or from the stream's last chunk."""
    user, request_id = f"user-{number % 3}", f"test-{number}"
    headers = {"Authorization": f"Bearer {key}", "x-request-id": request_id}
    response = await client.post("/v1/completions", json={**body, "user": user}, headers=headers)
    assert response.status_code == 200, response.text
    if body.get("stream"):
        lines = [line.removeprefix("data: ") for line in response.text.splitlines() if line.startswith("data: {")]
        usage = json.loads(lines[-1])["usage"]
    else:
        usage = response.json()["usage"]
    return Answer(request_id, id_of(key.encode()) or "", user, usage)


async def test_the_ledger_holds_exactly_what_the_answers_said(database: Database, prepared: Path | str) -> None:
    keys = [create_key(database, KeyTerms(f"key-{number}"), datetime.now(UTC)) for number in range(5)]
    limits = httpx.Limits(max_connections=N_REQUESTS)
    with serving(prepared) as url:
        async with httpx.AsyncClient(base_url=url, limits=limits, timeout=120) as client:
            answers = await asyncio.gather(
                *(complete(client, keys[n % 5], BODIES[n % len(BODIES)], n) for n in range(N_REQUESTS))
            )
    columns = (
        *(UsageTable.request_id, UsageTable.key_id, UsageTable.user),
        *(UsageTable.prompt_tokens, UsageTable.cached_tokens, UsageTable.completion_tokens),
    )
    with database.reading() as connection:
        rows = connection.execute(select(*columns)).all()
        others = connection.execute(select(UsageTable.status, UsageTable.model, UsageTable.account_id).distinct()).all()
    assert Counter(tuple(row) for row in rows) == Counter(answer.facts() for answer in answers)
    assert len(rows) == N_REQUESTS
    assert sum(row.completion_tokens for row in rows) > 0
    account_id = list_keys(database)[0].account_id
    assert [tuple(row) for row in others] == [(200, "local/echo", account_id)]
    assert {record.last_used for record in list_keys(database)} == {datetime.now(UTC).date()}


async def test_a_key_revoked_while_the_server_runs_stops_working(database: Database, prepared: Path | str) -> None:
    key = create_key(database, KeyTerms("a"), datetime.now(UTC))
    with serving(prepared) as url, httpx.Client(base_url=url, headers={"x-api-key": key}) as client:
        assert client.get("/v1/models").status_code == 200
        revoke_key(database, "a", datetime.now(UTC))
        # A key that never stops working is ended by the suite's timeout.
        while client.get("/v1/models").status_code == 200:
            pass
        assert client.get("/v1/models").status_code == 401


@contextmanager
def process(where: Path | str) -> Iterator[tuple["subprocess.Popen[str]", str]]:
    """A server in a process of its own, and its base URL; killed at the end."""
    environment = {**os.environ, "PYTHONPATH": str(SOURCES), "AFTERWORD_DATABASE": str(where)}
    with subprocess.Popen(
        SERVE, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as running:
        try:
            assert running.stdout is not None
            yield running, running.stdout.readline().split()[2].removesuffix("/v1:")
        finally:
            running.kill()


class Load:
    """Eight clients that ask without pause until their server is gone."""

    def __init__(self, url: str, key: str) -> None:
        self._url = url
        self._key = key
        self.answered: dict[str, float] = {}
        """Request id to `time.monotonic()` of its answer."""
        self._until = 0.0
        self._reached = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    async def run(self, seconds: float) -> None:
        """Start, and return after so many seconds of answers; the clients go on."""
        self._until = time.monotonic() + seconds
        self._tasks = [asyncio.create_task(self._client(name)) for name in range(8)]
        await self._reached.wait()

    async def ended(self) -> None:
        """Return once no client is left."""
        await asyncio.gather(*self._tasks)

    async def _client(self, name: int) -> None:
        async with httpx.AsyncClient(base_url=self._url, headers={"api-key": self._key}, timeout=60) as client:
            for number in itertools.count():
                request_id = f"load-{name}-{number}"
                body = {"prompt": "a b", "max_tokens": 3}
                try:
                    response = await client.post("/v1/completions", json=body, headers={"x-request-id": request_id})
                except httpx.TransportError:
                    return
                assert response.status_code == 200
                self.answered[request_id] = time.monotonic()
                if self.answered[request_id] >= self._until:
                    self._reached.set()


async def test_a_killed_server_loses_the_last_second_at_most(database: Database, prepared: Path | str) -> None:
    key = create_key(database, KeyTerms("a"), datetime.now(UTC))
    with process(prepared) as (running, url):
        load = Load(url, key)
        await load.run(2.5)
        killed = time.monotonic()
        running.send_signal(signal.SIGKILL)
        await load.ended()
    with closing(open_database(prepared)) as reopened, reopened.reading() as connection:
        kept = set(connection.scalars(select(UsageTable.request_id)))
        if reopened.dialect == "sqlite":
            assert connection.scalar(text("PRAGMA integrity_check")) == "ok"
    assert kept
    ages = {request_id: killed - at for request_id, at in load.answered.items() if request_id not in kept}
    assert {request_id: age for request_id, age in ages.items() if age > 1} == {}


async def test_a_server_that_is_asked_to_stop_loses_nothing(database: Database, prepared: Path | str) -> None:
    key = create_key(database, KeyTerms("a"), datetime.now(UTC))
    with process(prepared) as (running, url):
        load = Load(url, key)
        await load.run(0.3)
        running.send_signal(signal.SIGTERM)
        assert await asyncio.to_thread(running.wait) == 0
        await load.ended()
    with database.reading() as connection:
        kept = set(connection.scalars(select(UsageTable.request_id)))
    assert set(load.answered) - kept == set()
