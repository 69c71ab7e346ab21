"""What it costs that a model is in a process of its own, end to end, beside a server in one process.

    python -m benchmarks.processes [MODEL.gguf] [ROUNDS]

Runs in the project's environment. The servers take turns, round by round; the one that does not serve is idle. Prints a
row for each kind of work: the ratio of tokens/s, two processes to one, median and quartiles of the rounds, and the
processor time of a token, in microseconds: of both servers, and of the process with the socket alone. Threads that wait
for each other while they compute are busy, so the former says how long a token takes on all cores.
"""

import asyncio
import os
import sys
import tempfile
import time
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import uvloop
from benchmarks.client import Client
from benchmarks.places import BENCHMARKS, ROOT
from benchmarks.prompts import request
from benchmarks.servers import Running, Server, Shape, running

from afterword.config.model import DEFAULT_MODEL

SHAPE = Shape(slots=16, context=1024)
ROUNDS = 12

PROGRAMS = {
    "one process": [sys.executable, str(BENCHMARKS / "one_process.py")],
    "two processes": [str(Path(sys.executable).with_name("afterword"))],
}


@dataclass(frozen=True, slots=True)
class Work:
    """What is asked for at once."""

    n_clients: int
    n_tokens: int
    """Of each completion."""
    stream: bool


WORKS = [Work(n, n_tokens, stream) for n, n_tokens in ((1, 160), (16, 64)) for stream in (False, True)]


@dataclass(frozen=True, slots=True)
class Found:
    """Of one round of one server."""

    rate: float
    """Tokens/s of all clients together."""
    whole: float
    """Microseconds of processor time for a token, of all processes."""
    front: float
    """The same of the process that has the socket."""


def server(name: str, model: str) -> Server:
    """One of `PROGRAMS`."""

    def command(shape: Shape, port: int) -> list[str]:
        where = ["--port", str(port), "--log-level", "warning", "--database", f"{name}.db"]
        room = ["--parallel", str(shape.slots), "--context", str(shape.context)]
        return [*PROGRAMS[name], "serve", "--model", model, *where, *room]

    return Server(name, command, {"PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])})


async def measure(started: Running, work: Work, number: int) -> Found:
    """One round, whose prompts are the same for every server."""
    bodies = [
        request(f"Story {number} of client {i}: once upon a time", work.n_tokens, temperature=0.8, seed=i)
        for i in range(work.n_clients)
    ]
    processes = [started.process_id, *children(started.process_id)]
    before, since = [busy(one) for one in processes], time.perf_counter()
    await asyncio.gather(*(ask(started.client, body, work) for body in bodies))
    seconds = time.perf_counter() - since
    used = [busy(one) - was for one, was in zip(processes, before, strict=True)]
    n = work.n_clients * work.n_tokens
    return Found(n / seconds, 1e6 * sum(used) / n, 1e6 * used[0] / n)


async def ask(client: Client, body: dict[str, Any], work: Work) -> None:
    """One completion of a round."""
    n_tokens = (
        (await client.stream(body)).n_tokens
        if work.stream
        else (await client.complete(body))[1]["usage"]["completion_tokens"]
    )
    assert n_tokens == work.n_tokens


def busy(process_id: int) -> float:
    """Seconds of processor time of all threads that a process has had."""
    # What clock_getcpuclockid gives on Linux: the process, and that it is counted by the scheduler.
    return time.clock_gettime(~process_id << 3 | 2)


def children(process_id: int) -> list[int]:
    """Ids of the processes that the main thread of a process has started."""
    return [int(child) for child in Path(f"/proc/{process_id}/task/{process_id}/children").read_text().split()]


async def main(model: str, n_rounds: int) -> None:
    with tempfile.TemporaryDirectory() as logs:
        async with AsyncExitStack() as stack:
            both = [
                await stack.enter_async_context(running(server(name, model), SHAPE, Path(logs))) for name in PROGRAMS
            ]
            for work in WORKS:
                found: list[list[Found]] = [[], []]
                for number in range(n_rounds):
                    for i in (0, 1) if number % 2 == 0 else (1, 0):
                        found[i].append(await measure(both[i], work, number))
                print(row(work, *found), flush=True)


def row(work: Work, one: list[Found], two: list[Found]) -> str:
    """A line of the table."""
    ratios = [b.rate / a.rate for a, b in zip(one, two, strict=True)]
    low, middle, high = quantiles(ratios, n=4)
    cells = [f"{middle:.3f} ({low:.3f} to {high:.3f})"]
    cells += [f"{median(it.rate for it in each):.0f}" for each in (one, two)]
    cells += [f"{median(it.whole for it in each):.0f}" for each in (one, two)]
    cells.append(f"{median(it.front for it in two):.1f}")
    what = f"{work.n_clients} x {work.n_tokens} {'streamed' if work.stream else 'plain'}"
    return "| " + " | ".join([what, *cells]) + " |"


if __name__ == "__main__":
    given = dict(enumerate(sys.argv))
    uvloop.run(main(given.get(1, DEFAULT_MODEL.name), int(given.get(2, ROUNDS))))
