"""What one client notices of the others: waiting for the first token and between tokens; and what a seed costs."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random
from statistics import median

from benchmarks.arrivals import Stream, percentile
from benchmarks.client import Client, Refused
from benchmarks.prompts import request, text
from benchmarks.sizes import Sizes
from benchmarks.workloads import Measures, all_at_once, sampled

BUSY_CLIENTS = 8
BUSY_TOKENS = 256

ELSEWHERE = "127.0.0.2"
UNTIL_ALL_RUN_SECONDS = 2.0


async def first_token(client: Client, random: Random, sizes: Sizes) -> Measures:
    """Short prompts sent to a server that decodes for others, then also while it reads long prompts.

    `gap_*` are the times between the others' tokens meanwhile.
    """
    found: Measures = {}
    for name, n_intruders in (("beside_decoding", 0), ("beside_long_prompts", 1)):
        others: list[Stream] = []
        async with _busy(client, random, sizes, others, n_intruders):
            firsts = [(await client.stream(request(text(32, random), 4))).first for _ in range(sizes.probes)]
        found |= {f"{name}_first_token_ms": 1e3 * median(firsts), f"{name}_worst_ms": 1e3 * max(firsts)}
        found |= {f"{name}_{metric}": value for metric, value in _gaps(others).items()}
    return found


async def fairness(client: Client, random: Random, sizes: Sizes) -> Measures:
    """One token for a client alone, then behind four requests of many candidates of another client, and of its own.

    The other client has another address, by which a server may tell them apart.
    """
    probes = {"behind_another": client.at(ELSEWHERE), "behind_its_own": client}
    found = {"alone": [await _probe(client, random) for _ in range(sizes.probes)]}
    async with _many_candidates(client, random, sizes):
        found |= {name: [await _probe(each, random) for _ in range(sizes.probes)] for name, each in probes.items()}
    measures: Measures = {}
    for name, seconds in found.items():
        measures |= {f"{name}_ms": 1e3 * median(seconds), f"{name}_worst_ms": 1e3 * max(seconds)}
    return measures


async def between_tokens(client: Client, random: Random, sizes: Sizes) -> Measures:
    """Times between the tokens of many clients that come at once, while the last of their prompts are read too."""
    streams, seconds = await all_at_once(client, sampled(sizes.many_clients, random, sizes))
    return {"out_tokens_per_s": sum(stream.n_tokens for stream in streams) / seconds, **_gaps(streams)}


async def seeded(client: Client, random: Random, sizes: Sizes) -> Measures:
    """The same requests of many clients, with and without seeds in turn."""
    rates: dict[str, list[float]] = {"unseeded": [], "seeded": []}
    for _ in range(sizes.repeats):
        for name, found in rates.items():
            bodies = sampled(sizes.clients, random, sizes)
            if name == "seeded":
                bodies = [{**body, "seed": i + 1} for i, body in enumerate(bodies)]
            streams, seconds = await all_at_once(client, bodies)
            found.append(sum(stream.n_tokens for stream in streams) / seconds)
    return {f"{name}_out_tokens_per_s": median(found) for name, found in rates.items()}


async def _probe(client: Client, random: Random) -> float:
    """Seconds of a short prompt and one token."""
    return (await client.complete(request(text(8, random), 1)))[0]


@asynccontextmanager
async def _many_candidates(client: Client, random: Random, sizes: Sizes) -> AsyncIterator[None]:
    """Have four requests of many candidates run inside the context, again and again."""

    async def ask_on() -> None:
        while True:
            body = request(text(8, random), sizes.out, temperature=0.8, n=sizes.many_choices)
            n_choices = len((await client.complete(body))[1]["choices"])
            if n_choices != sizes.many_choices:
                raise Refused(f"asked for n={sizes.many_choices}, got {n_choices} choices")

    async with asyncio.TaskGroup() as tasks:
        others = [tasks.create_task(ask_on()) for _ in range(4)]
        # By then the server works on all of them.
        await asyncio.sleep(UNTIL_ALL_RUN_SECONDS)
        yield
        for task in others:
            task.cancel()


def _gaps(streams: list[Stream]) -> Measures:
    gaps = [1e3 * gap for stream in streams for gap in stream.gaps]
    return {"gap_p50_ms": percentile(gaps, 50), "gap_p99_ms": percentile(gaps, 99)}


@asynccontextmanager
async def _busy(
    client: Client, random: Random, sizes: Sizes, ended: list[Stream], n_intruders: int
) -> AsyncIterator[None]:
    """Keep the server busy inside the context; whoever streams there adds its streams to `ended`."""
    stop = asyncio.Event()

    async def stream_on() -> None:
        while not stop.is_set():
            ended.append(await client.stream(request(text(sizes.prompt, random), BUSY_TOKENS, temperature=0.8)))

    async def read_on() -> None:
        while not stop.is_set():
            await client.stream(request(text(sizes.intruder, random), 1))

    async with asyncio.TaskGroup() as tasks:
        for work in [stream_on] * BUSY_CLIENTS + [read_on] * n_intruders:
            tasks.create_task(work())
        # Two answers one after the other: by then all of the others have been admitted.
        for _ in range(2):
            await client.stream(request(text(8, random), 2))
        yield
        stop.set()
