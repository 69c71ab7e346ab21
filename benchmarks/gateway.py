"""What keys, limits and the ledger cost a request: the echo engine with and without them, in turn. In our environment.

    .venv/bin/python -m benchmarks.gateway N_REQUESTS

Calls applications as a server would, without a socket, and prints one JSON object: the median of a request for one
token to an open server, and what a stored key with every kind of limit and the ledger, both in SQLite, add to it;
where there is a redis-server, also with the limits in Redis. A request ends when it has been recorded and settled.
"""

import json
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, closing, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import uvloop
from benchmarks.inprocess import Headers, exchange
from redis import Redis
from redis.backoff import ConstantBackoff
from redis.exceptions import ConnectionError as NotThereYet
from redis.retry import Retry

from afterword import logs
from afterword.api.app import create_app
from afterword.config.tree import ServerConfig
from afterword.engine.echo import EchoEngine
from afterword.gateway.database import open_database
from afterword.gateway.grant import KeyLimits
from afterword.gateway.interfaces import Gateway
from afterword.gateway.key_store import KeyTerms, create_key
from afterword.gateway.opening import OPEN, open_limiter
from afterword.gateway.storage import open_storage
from afterword.registry import Registry, ServedModel

BODY = {"prompt": "the quick brown fox ", "max_tokens": 1, "temperature": 0}

ROOMY = KeyLimits(requests_per_minute=10**7, tokens_per_minute=10**9, concurrent_requests=10**3)
"""Counted on every request, never reached."""

WARM_UP = 20
"""Requests to each before anything is timed."""


@dataclass(slots=True)
class Contender:
    """One application and the seconds that its requests took."""

    app: Any
    headers: Headers = ()
    seconds: list[float] = field(default_factory=list)


async def measure(n_requests: int) -> dict[str, float]:
    """Metrics by name. The applications take turns: what the machine does meanwhile it does to all of them."""
    async with AsyncExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        redis = stack.enter_context(_redis(directory))
        contenders = {"open": Contender(await stack.enter_async_context(_running(OPEN)))}
        for name, url in {"keyed": None, "shared": redis}.items():
            if name == "keyed" or url is not None:
                key, gateway = _stored(directory / f"{name}.db", url)
                headers = ((b"authorization", b"Bearer " + key.encode("ascii")),)
                contenders[name] = Contender(await stack.enter_async_context(_running(gateway)), headers)
        for _ in range(WARM_UP + n_requests):
            for contender in contenders.values():
                started = time.perf_counter()
                await exchange(contender.app, BODY, contender.headers)
                contender.seconds.append(time.perf_counter() - started)
    return _figures({name: contender.seconds[WARM_UP:] for name, contender in contenders.items()})


def _figures(seconds: dict[str, list[float]]) -> dict[str, float]:
    """The median of an open server's requests, and of the differences between requests of the same turn."""
    opened = seconds.pop("open")
    found = {"open_request_ms": 1e3 * statistics.median(opened)}
    for name, taken in seconds.items():
        added = [more - less for more, less in zip(taken, opened, strict=True)]
        found[f"{name}_added_ms"] = 1e3 * statistics.median(added)
        found[f"{name}_added_p99_ms"] = 1e3 * statistics.quantiles(added, n=100)[98]
    return found


def _stored(file: Path, redis: str | None) -> tuple[str, Gateway]:
    """A key with limits, and the gateway that knows it."""
    with closing(open_database(file)) as database:
        key = create_key(database, KeyTerms("bench", limits=ROOMY), datetime.now(UTC))
    keys, ledger = open_storage(file, None, open_until_first_key=False)
    return key, Gateway(keys, open_limiter(redis), ledger)


@asynccontextmanager
async def _running(gateway: Gateway) -> AsyncIterator[Any]:
    app = create_app(Registry([ServedModel("echo", EchoEngine(), created=0)]), ServerConfig(), gateway)
    async with app.router.lifespan_context(app):
        yield app


@contextmanager
def _redis(directory: Path) -> Iterator[str | None]:
    """The URL of a Redis of its own; None where none is installed."""
    program = shutil.which("redis-server")
    if program is None:
        yield None
        return
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    command = [program, "--port", str(port), "--bind", "127.0.0.1", "--dir", str(directory), "--save", ""]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        try:
            url = f"redis://127.0.0.1:{port}"
            starting = Retry(ConstantBackoff(0.02), 500)
            with Redis.from_url(url, retry=starting, retry_on_error=[NotThereYet]) as client:
                client.ping()
            yield url
        finally:
            process.terminate()


if __name__ == "__main__":
    logs.configure("console", "warning")
    # The loop that the server runs on: with Redis there are sockets to wait for.
    print(json.dumps(uvloop.run(measure(int(sys.argv[1])))))
