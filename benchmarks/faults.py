"""What clients see when the process of a model ends, and how long until it answers again.

    python -m benchmarks.faults [--model FILE] [--only TEXT]

Starts a server on loopback for each fault, has four streams run and four requests wait, and brings the fault about.
Prints a row of the table in docs/reliability.md for each. A minute a fault at most, on a copy of the model's file.
"""

import argparse
import asyncio
import os
import shutil
import signal
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import orjson
from benchmarks.own_server import OwnServer, serving

from afterword.config.model import DEFAULT_MODEL
from afterword.loading.embedded import model_file

RUNNING = WAITING = 4
STEP_TIMEOUT = 10
"""Seconds after which a process that does nothing is taken for stuck; the default is generous."""
SECONDS_CUT_OFF = 3.0
"""How long the file stays cut off."""


@dataclass(frozen=True, slots=True)
class Server:
    """A server that answers."""

    http: httpx.AsyncClient
    own: OwnServer
    file: Path

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the process of its model."""
        os.kill(self.own.children[0], number)


Fault = Callable[[Server], None]


@dataclass(frozen=True, slots=True)
class Seen:
    """What a fault came to."""

    error_after: float
    """Seconds until all streams had ended."""
    one_error: int
    """Streams that ended with one error event."""
    answered: int
    """Waiting requests that got the answer that they get without a fault."""
    failed: int
    """Waiting requests that got a 503."""
    green_after: float
    """Seconds from the fault, or from its end, until `/ready` was 200 again."""


@asynccontextmanager
async def serving_copy(file: Path) -> AsyncIterator[Server]:
    """Run a server with a model's file that may be changed."""
    options = ["--parallel", str(RUNNING), "--context", "2048", "--database", "none"]
    async with serving("--model", str(file), "--step-timeout", str(STEP_TIMEOUT), *options) as server:
        yield Server(server.http, server, file)


def body(number: int, **fields: Any) -> dict[str, Any]:
    """A seeded request."""
    return {"prompt": f"Number {number} of them: once upon a time", "seed": number, "ignore_eos": True, **fields}


async def stream(server: Server, number: int, begun: asyncio.Event) -> list[dict[str, Any]]:
    """The events of a stream that does not end by itself."""
    events: list[dict[str, Any]] = []
    request = body(number, max_tokens=1900, stream=True)
    async with server.http.stream("POST", "/v1/completions", json=request) as response:
        async for line in response.aiter_lines():
            if line.startswith("data: {"):
                begun.set()
                events.append(orjson.loads(line.removeprefix("data: ")))
    return events


async def answer(server: Server, number: int) -> tuple[int, object]:
    """Status and choices of a short request."""
    response = await server.http.post("/v1/completions", json=body(number, max_tokens=20))
    return response.status_code, response.json().get("choices")


async def until_ready(server: Server) -> None:
    """Return once the server takes itself for ready."""
    while (await server.http.get("/ready")).status_code != 200:
        await asyncio.sleep(0.02)


async def bring_about(server: Server, fault: Fault, put_right: Fault | None) -> Seen:
    """Have requests run and wait, and look on."""
    expected = [await answer(server, number) for number in range(WAITING)]
    begun = [asyncio.Event() for _ in range(RUNNING)]
    streams = [asyncio.create_task(stream(server, number, event)) for number, event in enumerate(begun)]
    await asyncio.gather(*(event.wait() for event in begun))
    waiting = [asyncio.create_task(answer(server, number)) for number in range(WAITING)]
    await asyncio.sleep(0.2)
    since = time.perf_counter()
    fault(server)
    told = await asyncio.gather(*streams)
    error_after = time.perf_counter() - since
    if put_right is not None:
        await asyncio.sleep(SECONDS_CUT_OFF)
        put_right(server)
        since = time.perf_counter()
    await until_ready(server)
    green_after = time.perf_counter() - since
    found = await asyncio.gather(*waiting)
    one_error = sum([i for i, event in enumerate(events) if "error" in event] == [len(events) - 1] for events in told)
    answered = sum(one == other for one, other in zip(found, expected, strict=True))
    return Seen(error_after, one_error, answered, sum(status == 503 for status, _ in found), green_after)


def sends(number: signal.Signals) -> Fault:
    """The fault of a signal to the process of the model."""
    return lambda server: server.signal(number)


def put_back(server: Server, model: Path) -> None:
    """Have the server's file whole again."""
    server.file.write_bytes(model.read_bytes())


async def measure(model: Path, only: str) -> None:
    """Bring about every fault whose name has `only` in it, on a copy of the file, and print what came of it."""
    faults: dict[str, tuple[Fault, Fault | None]] = {
        "`kill -9`": (sends(signal.SIGKILL), None),
        "SIGSEGV": (sends(signal.SIGSEGV), None),
        "SIGABRT": (sends(signal.SIGABRT), None),
        f"stands still (`step_timeout` {STEP_TIMEOUT} s)": (sends(signal.SIGSTOP), None),
        f"the file is cut off, and back after {SECONDS_CUT_OFF:g} s": (
            lambda server: os.truncate(server.file, 4096),
            lambda server: put_back(server, model),
        ),
    }
    print("| fault | error after | streams with one error event | waiting requests | `/ready` is 200 after |")
    print("|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as directory:
        for name, (fault, put_right) in faults.items():
            if only not in name:
                continue
            file = Path(shutil.copy(model, directory))
            async with serving_copy(file) as server:
                seen = await bring_about(server, fault, put_right)
            print(f"| {name} | {row_of(seen)} |", flush=True)


def row_of(seen: Seen) -> str:
    """The cells behind the fault's name."""
    n, what = (seen.answered, "answered, to the same bytes") if seen.failed == 0 else (seen.failed, "got a 503")
    cells = (
        f"{seen.error_after:.2f} s",
        f"{seen.one_error} of {RUNNING}",
        f"{n} of {WAITING} {what}",
        f"{seen.green_after:.1f} s",
    )
    return " | ".join(cells)


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, default=None, help="a GGUF file; the default model")
    parser.add_argument("--only", default="", help="faults with this text in their names")
    options = parser.parse_args()
    asyncio.run(measure(model_file(DEFAULT_MODEL.name) if options.model is None else options.model, options.only))


if __name__ == "__main__":
    main()
