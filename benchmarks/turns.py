"""What a client waits for behind others, and how well deadlines are kept.

    python -m benchmarks.turns [--model FILE] [--tries N]

A token for one client, alone and while another has four requests of n = 128 at work; then requests with a deadline that
comes while they wait or run. Prints the rows of docs/reliability.md; the exit code is 1 if a token takes more than ten
times what it takes alone, or an answer comes more than a second after its deadline.
"""

import argparse
import asyncio
import statistics
import sys
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
from benchmarks.own_server import OwnServer, percentiles, serving

MOST_TIMES = 10
MOST_LATE = 1.0
DEADLINE = 2.0
ADDRESS = "127.0.0.2"
"""Of the other client: a party of its own where there are no keys."""

LONG: dict[str, Any] = {"n": 128, "max_tokens": 64, "ignore_eos": True}


async def one_token(server: OwnServer, number: int) -> float:
    """Seconds of an answer of one token, on a prompt of a few words that nobody has sent before."""
    began = time.perf_counter()
    answer = await server.http.post(
        "/v1/completions", json={"prompt": f"{number} small birds", "max_tokens": 1, "logprobs": 0}
    )
    answer.raise_for_status()
    return time.perf_counter() - began


async def fairness(server: OwnServer, tries: int) -> bool:
    """Alone and behind others, in turn; prints both and their ratio."""
    transport = httpx.AsyncHTTPTransport(local_address=ADDRESS)
    alone: list[float] = []
    behind: list[float] = []
    async with httpx.AsyncClient(base_url=server.http.base_url, transport=transport, timeout=600) as other:
        for number in range(tries):
            alone.append(await one_token(server, number))
            asked = [
                asyncio.create_task(other.post("/v1/completions", json={"prompt": f"{number} {i} far", **LONG}))
                for i in range(4)
            ]
            # So that all slots are in use.
            await asyncio.sleep(1.0)
            assert not any(task.done() for task in asked)
            behind.append(await one_token(server, tries + number))
            for task in asked:
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task
            await idle(server)
    times = statistics.median(behind) / statistics.median(alone)
    print(
        f"a token alone {percentiles(alone)}; behind four requests of n = 128 of another client "
        f"{percentiles(behind)}: {times:.1f} times"
    )
    return times <= MOST_TIMES


async def idle(server: OwnServer) -> None:
    """Return once no sequence runs or waits."""
    while True:
        told = (await server.http.get("/metrics")).text.splitlines()
        if all(line.endswith(" 0.0") for line in told if line.startswith(BUSY)):
            return
        await asyncio.sleep(0.02)


BUSY = ("afterword_engine_running{", "afterword_engine_waiting{")


async def deadlines(server: OwnServer, tries: int) -> bool:
    """Twice as many long requests as there are slots, all with a deadline; prints when they ended, and how."""
    late: list[float] = []
    kinds: Counter[str] = Counter()

    async def ask(number: int, began: float) -> None:
        body = {"prompt": f"{number} long", "max_tokens": 2000, "ignore_eos": True, "n": 1 + number % 2}
        headers = {"x-request-timeout": str(DEADLINE)}
        answer = await server.http.post("/v1/completions", json=body, headers=headers)
        late.append(time.perf_counter() - began - DEADLINE)
        kinds[f"{answer.status_code}" + (" cut" if answer.headers.get("x-timed-out") == "true" else "")] += 1

    for number in range(tries):
        began = time.perf_counter()
        await asyncio.gather(*(ask(100 * number + i, began) for i in range(32)))
        await idle(server)
    ends = ", ".join(f"{n} x {kind}" for kind, n in sorted(kinds.items()))
    print(f"deadlines of {DEADLINE:g} s: {ends}; ended {percentiles(late)} after the deadline")
    return max(late) <= MOST_LATE and kinds.keys() <= {"200 cut", "504"}


async def measure(model: Path | None, tries: int) -> bool:
    """Measure both; whether both held."""
    options = ["--database", "none", "--context", "2560", *([] if model is None else ["--model", str(model)])]
    async with serving(*options) as server:
        await one_token(server, -1)
        fair = await fairness(server, tries)
        return await deadlines(server, max(1, tries // 4)) and fair


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, default=None, help="a GGUF file; the default model")
    parser.add_argument("--tries", type=int, default=12)
    options = parser.parse_args()
    sys.exit(0 if asyncio.run(measure(options.model, options.tries)) else 1)


if __name__ == "__main__":
    main()
