"""The six workloads that every server is asked to do. Each sends its requests and says what it measured.

Knows a client, no server. What a server quietly leaves out is `Refused`, not measured.
"""

import asyncio
import time
from collections.abc import Sequence
from random import Random
from statistics import median
from typing import Any

from benchmarks.arrivals import Stream
from benchmarks.client import Client, Refused
from benchmarks.prompts import request, text
from benchmarks.sizes import Sizes

Measures = dict[str, float]
"""Metric to value. A name ends in its unit (see `report.direction`); `@N` behind it is the size it was measured at."""

SCORED_AT_ONCE = 8


async def single(client: Client, random: Random, sizes: Sizes) -> Measures:
    """One client, greedy, an ordinary prompt and a long one: medians of some runs."""
    streams = [await client.stream(request(text(sizes.prompt, random), sizes.single_out)) for _ in range(sizes.repeats)]
    long = [await client.stream(request(text(sizes.file, random), 1)) for _ in range(sizes.repeats)]
    return {
        "first_token_ms": 1e3 * median(stream.first for stream in streams),
        f"first_token_ms@{sizes.file}": 1e3 * median(stream.first for stream in long),
        "decode_tokens_per_s": median(stream.decode_rate for stream in streams),
    }


async def concurrent(client: Client, random: Random, sizes: Sizes) -> Measures:
    """Several clients at once, sampled and seeded, each with a prompt of its own."""
    bodies = sampled(sizes.clients, random, sizes)
    return joint_measures(*await all_at_once(client, [{**body, "seed": i + 1} for i, body in enumerate(bodies)]))


async def fanout(client: Client, random: Random, sizes: Sizes) -> Measures:
    """One long prompt, n candidates."""
    n = sizes.candidates
    seconds, answer = await client.complete(_candidates(random, sizes, n=n))
    if len(answer["choices"]) != n:
        raise Refused(f"asked for n={n}, got {len(answer['choices'])} choices")
    return {"wall_s": seconds, "out_tokens_per_s": n * sizes.out / seconds}


async def best_of(client: Client, random: Random, sizes: Sizes) -> Measures:
    """One long prompt, the best of several candidates."""
    n = sizes.candidates
    seconds, answer = await client.complete(_candidates(random, sizes, n=1, best_of=n))
    sampled_tokens = answer["usage"]["completion_tokens"]
    if sampled_tokens < n * sizes.out:
        raise Refused(f"asked for best_of={n}, but only {sampled_tokens} tokens were sampled")
    return {"wall_s": seconds, "out_tokens_per_s": n * sizes.out / seconds}


async def score(client: Client, random: Random, sizes: Sizes) -> Measures:
    """Multiple choice: contexts of 180 words with four endings of 12 each, log-probabilities of the prompt."""
    prompts = questions(4 * sizes.contexts, random)
    n_scored, seconds = await score_all(client, prompts, sizes.scoring_seconds)
    return {"requests_per_s": n_scored / seconds}


async def typing(client: Client, random: Random, sizes: Sizes) -> Measures:
    """An editor: a long text that grows by two words a keystroke, eight tokens wanted after each."""
    prompt = text(sizes.file, random)
    firsts = []
    for _ in range(sizes.keystrokes):
        prompt += " " + text(2, random)
        firsts.append((await client.stream(request(prompt, 8))).first)
    return {"opening_ms": 1e3 * firsts[0], "next_first_token_ms": 1e3 * median(firsts[1:])}


def sampled(n: int, random: Random, sizes: Sizes) -> list[dict[str, Any]]:
    """Requests of `n` clients with an ordinary prompt each, sampled."""
    return [request(text(sizes.prompt, random), sizes.out, temperature=0.8, top_p=0.95) for _ in range(n)]


async def all_at_once(client: Client, bodies: Sequence[dict[str, Any]]) -> tuple[list[Stream], float]:
    """Stream all requests at once; the streams, and seconds until the last one ended."""
    started = time.perf_counter()
    streams = await asyncio.gather(*(client.stream(body) for body in bodies))
    return streams, time.perf_counter() - started


def joint_measures(streams: Sequence[Stream], seconds: float) -> Measures:
    """What all clients got together."""
    return {
        "wall_s": seconds,
        "out_tokens_per_s": sum(stream.n_tokens for stream in streams) / seconds,
        "first_token_ms": 1e3 * median(stream.first for stream in streams),
    }


def questions(n_prompts: int, random: Random) -> list[str]:
    """Prompts to score; each four in a row share a context."""
    prompts: list[str] = []
    while len(prompts) < n_prompts:
        context = text(180, random)
        prompts += [f"{context} {text(12, random)}" for _ in range(4)]
    return prompts[:n_prompts]


async def score_all(client: Client, prompts: Sequence[str], seconds: float) -> tuple[int, float]:
    """Score prompts, some at once, beginning none after `seconds`; how many were scored, and in how many seconds."""
    tokens = await _least_tokens(client)
    started = time.perf_counter()
    waiting = iter(prompts)

    async def work() -> int:
        n_done = 0
        for prompt in waiting:
            _, answer = await client.complete(_scoring(prompt, tokens))
            _check_scores(answer)
            n_done += 1
            if time.perf_counter() - started > seconds:
                break
        return n_done

    n_scored = sum(await asyncio.gather(*(work() for _ in range(SCORED_AT_ONCE))))
    return n_scored, time.perf_counter() - started


async def _least_tokens(client: Client) -> int:
    """0, or 1 for a server that refuses that, or takes it for no limit at all."""
    try:
        _, answer = await client.complete(_scoring("a short text", 0))
    except Refused:
        return 1
    return 0 if answer["usage"]["completion_tokens"] <= 1 else 1


def _scoring(prompt: str, max_tokens: int) -> dict[str, Any]:
    return {"prompt": prompt, "max_tokens": max_tokens, "echo": True, "logprobs": 1, "temperature": 0}


def _check_scores(answer: dict[str, Any]) -> None:
    found = answer["choices"][0].get("logprobs") or {}
    n_scores = sum(value is not None for value in found.get("token_logprobs") or ())
    # A context of 180 words is 180 tokens or more; a server that ignores `echo` reports one or none.
    if n_scores < 100:
        raise Refused(f"asked for the prompt's log-probabilities, got {n_scores}")


def _candidates(random: Random, sizes: Sizes, **fields: int) -> dict[str, Any]:
    return request(text(sizes.long_prompt, random), sizes.out, temperature=0.9, seed=7, **fields)
