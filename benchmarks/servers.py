"""Starts one server, waits until it answers, and stops it. Knows no particular server and no workload."""

import asyncio
import json
import os
import signal
import socket
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.client import Client, Refused, exchange
from benchmarks.prompts import request

SECONDS_TO_START = 600
SECONDS_TO_STOP = 40


@dataclass(frozen=True, slots=True)
class Shape:
    """How much room a server is given."""

    slots: int
    """Sequences at once."""
    context: int
    """Tokens of prompt and completion together, for each."""


@dataclass(frozen=True, slots=True)
class Server:
    """How to start one configuration of one server."""

    name: str
    command: Callable[[Shape, int], Sequence[str]]
    """The command line, given the shape and the port."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Variables beside those of this process."""
    batches: bool = True
    """Runs requests at the same time; one that does not is left out where that is the point."""


@dataclass(frozen=True, slots=True)
class Running:
    """A server that answers."""

    client: Client
    process_id: int
    port: int


class NotStarted(Exception):
    """The server ended, or did not answer in time."""


@asynccontextmanager
async def running(server: Server, shape: Shape, logs: Path) -> AsyncIterator[Running]:
    """Run `server` on a free port inside the context, warmed up. Raises `NotStarted`.

    Variables of our own configuration are kept from it, and it starts in the directory of its log, where no
    configuration file lies.
    """
    port = free_port()
    environment = {name: value for name, value in os.environ.items() if not name.startswith("AFTERWORD_")}
    with (logs / f"{server.name}.log").open("ab") as log:
        process = await asyncio.create_subprocess_exec(
            *server.command(shape, port),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd=logs,
            env={**environment, **server.environment},
            start_new_session=True,
        )
    try:
        model = await _model_name(process, port, server.name)
        client = Client(port, model)
        await _warm_up(client)
        yield Running(client, process.pid, port)
    finally:
        await _stop(process)


def free_port() -> int:
    """A TCP port of 127.0.0.1 that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


async def _model_name(process: asyncio.subprocess.Process, port: int, name: str) -> str:
    """The first model the server lists, once it lists any."""
    deadline = time.monotonic() + SECONDS_TO_START
    while time.monotonic() < deadline:
        if process.returncode is not None:
            raise NotStarted(f"{name} ended with {process.returncode}; its log says why")
        with suppress(OSError, Refused):
            models = json.loads((await exchange(port, "GET", "/v1/models")).body)
            return str(models["data"][0]["id"])
        await asyncio.sleep(0.1)
    raise NotStarted(f"{name} did not answer within {SECONDS_TO_START} seconds")


async def _warm_up(client: Client) -> None:
    """Two short completions; a server that already listens may still be loading its model."""
    deadline = time.monotonic() + SECONDS_TO_START
    for _ in range(2):
        while True:
            try:
                await client.stream(request("one two three four five six seven eight", 16))
                break
            except (Refused, OSError) as error:
                if time.monotonic() > deadline:
                    raise NotStarted(f"the first request failed: {error}") from error
                await asyncio.sleep(0.2)


async def _stop(process: asyncio.subprocess.Process) -> None:
    """Terminate the server, and kill it if it does not end; what it started is in its process group."""
    if process.returncode is None:
        process.terminate()
        with suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), SECONDS_TO_STOP)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    await process.wait()
