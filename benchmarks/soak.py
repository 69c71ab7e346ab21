"""Whether a server that is asked for three times what it can do, for long, stays what it was.

    python -m benchmarks.soak [--minutes N] [--model FILE] [--seed N]

A server with keys, limits and a ledger in SQLite gets mixed work: plain and streamed answers, n, best_of, logprobs,
echo, forms, long prompts, and clients that leave. Then it must be idle, with every slot free; every request must have
been answered whole, or refused by a 503 or 429; the ledger must have a row for each that was let in, with the tokens
of its answer; the memory of both processes must not grow. Prints the figures of docs/reliability.md; the exit code is
1 if anything of that does not hold.
"""

import argparse
import asyncio
import json
import random
import sqlite3
import statistics
import sys
import tempfile
import time
from collections import Counter
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
from benchmarks.own_server import OwnServer, make_key, resident_bytes, serving
from benchmarks.prompts import text

SLOTS = 8
WAITING = 8
CLIENTS = 3 * (SLOTS + WAITING)
CONTEXT = 1024
REQUESTS_A_MINUTE = 120
"""Limit of one of the two keys, so that there are refusals of that kind."""

PAUSE = 0.5
"""Seconds before a client that was refused comes again; less than it is told, so that the server stays full."""

SAMPLE_SECONDS = 2.0
NOISE_BYTES = 8 * 2**20
"""How much the memory of a process may differ between two parts of a run that is too short to tell."""

MOST_SHOWN = 20

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Answer:
    """A request that was let in, as its client saw it."""

    tokens: tuple[int, int] | None
    """Prompt and completion tokens of its usage; None: the client has left."""


@dataclass(slots=True)
class Seen:
    """What all clients saw."""

    answers: dict[str, Answer] = field(default_factory=dict)
    """By request id."""
    refusals: Counter[int] = field(default_factory=Counter)
    unknown: int = 0
    """Clients that left before they were told an id."""
    problems: list[str] = field(default_factory=list)
    memory: dict[str, list[int]] = field(default_factory=dict)
    """Bytes of each process, in turn."""


def work(draw: random.Random) -> Json:
    """A request of the mix."""
    prompt = text(draw.choice((3, 10, 40, 40, 300)), draw)
    common: Json = {"prompt": prompt, "max_tokens": draw.choice((1, 8, 24, 60)), "user": "soak"}
    kinds: tuple[Json, ...] = (
        {},
        {"seed": draw.randrange(100)},
        {"n": draw.choice((2, 3, 5))},
        {"best_of": 3, "n": draw.choice((1, 2))},
        {"logprobs": draw.choice((0, 5, 20))},
        {"logprobs": 1, "echo": True, "max_tokens": 0},
        {"prompt": [prompt, "and then", "once"], "echo": True},
        {"stop": ["\n", " the"], "temperature": 0.3},
        {"json_schema": {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}},
        {"regex": "[a-z ]{5,40}"},
        {"logit_bias": {"5": -50}, "presence_penalty": 0.5, "top_k": 20},
        {"ignore_eos": True, "max_tokens": 200},
    )
    body = common | draw.choice(kinds)
    if draw.random() < 0.5 and "best_of" not in body:
        body |= {"stream": True, "stream_options": {"include_usage": True}}
    return body


async def client(http: httpx.AsyncClient, key: str, draw: random.Random, until: float, seen: Seen) -> None:
    """Ask for one thing after the other."""
    while time.monotonic() < until:
        body = work(draw)
        # One in four leaves, at any moment.
        patience = draw.choice((None, None, None, draw.random() * 8))
        try:
            await asyncio.wait_for(_ask(http, key, body, seen), patience)
        except TimeoutError:
            seen.unknown += 1
        except (httpx.HTTPError, ValueError, KeyError, IndexError) as error:
            seen.problems.append(f"{type(error).__name__}: {error}; sent {str(body)[:300]}")


async def _ask(http: httpx.AsyncClient, key: str, body: Json, seen: Seen) -> None:
    headers = {"Authorization": f"Bearer {key}"}
    async with http.stream("POST", "/v1/completions", json=body, headers=headers) as response:
        number = response.headers["x-request-id"]
        if response.status_code == 200:
            seen.answers[number] = Answer(None)
        content = (await response.aread()).decode()
    if response.status_code == 200:
        seen.answers[number] = Answer(tokens_of(content, body))
    elif response.status_code in (503, 429):
        seen.refusals[response.status_code] += 1
        await asyncio.sleep(PAUSE)
    else:
        raise ValueError(f"{response.status_code} {content[:300]}")


def tokens_of(content: str, body: Json) -> tuple[int, int]:
    """The usage of a whole answer. Raises `ValueError` if it is none."""
    events = [json.loads(line[6:]) for line in content.splitlines() if line.startswith("data: {")]
    if body.get("stream") and not content.endswith("data: [DONE]\n\n"):
        raise ValueError(f"a stream without its end: {content[-300:]}")
    told = events if body.get("stream") else [json.loads(content)]
    ends = [choice["finish_reason"] for event in told for choice in event.get("choices", ()) if choice["finish_reason"]]
    n_prompts = len(body["prompt"]) if isinstance(body["prompt"], list) else 1
    if len(ends) != n_prompts * body.get("n", 1):
        raise ValueError(f"choices that did not end: {content[-300:]}")
    usage = told[-1]["usage"]
    return usage["prompt_tokens"], usage["completion_tokens"]


async def watch(server: OwnServer, seen: Seen) -> None:
    """Note the memory of both processes until cancelled."""
    worker = server.children[0]
    while True:
        seen.memory.setdefault("server", []).append(server.resident_bytes)
        seen.memory.setdefault("model", []).append(resident_bytes(worker))
        await asyncio.sleep(SAMPLE_SECONDS)


async def check_idle(server: OwnServer, key: str, seen: Seen) -> None:
    """Every slot must be free at once, and all of them usable."""
    headers = {"Authorization": f"Bearer {key}"}
    for _ in range(100):
        told = (await server.http.get("/metrics", headers=headers)).text
        busy = [line for line in told.splitlines() if line.startswith(BUSY) and not line.endswith(" 0.0")]
        if not busy:
            break
        await asyncio.sleep(0.1)
    else:
        seen.problems.append(f"not idle ten seconds after the last request: {busy}")
    whole: Json = {"prompt": "all", "n": SLOTS, "max_tokens": 20, "ignore_eos": True}
    answer = await server.http.post("/v1/completions", json=whole, headers=headers, timeout=60)
    seen.answers[answer.headers["x-request-id"]] = Answer(tokens_of(answer.text, whole))
    for path in ("/health", "/ready"):
        if (status := (await server.http.get(path)).status_code) != 200:
            seen.problems.append(f"{path} says {status} at the end")


BUSY = ("afterword_engine_running{", "afterword_engine_waiting{", "afterword_ledger_rows_waiting ")


def check_ledger(database: Path, seen: Seen) -> Counter[str]:
    """Compare the rows with the answers; what there was, in words."""
    with closing(sqlite3.connect(database)) as connection:
        found = connection.execute("SELECT request_id, status, prompt_tokens, completion_tokens FROM usage").fetchall()
    rows = {number: (status, (prompt, completion)) for number, status, prompt, completion in found}
    kinds: Counter[str] = Counter()
    if len(rows) != len(found):
        seen.problems.append(f"{len(found) - len(rows)} requests have more than one row")
    for number, answer in seen.answers.items():
        status, tokens = rows.get(number, (None, None))
        if answer.tokens is None:
            kinds["left"] += 1
            # Its last bytes may have been under way.
            wrong = status not in (499, 200)
        else:
            kinds["answered"] += 1
            wrong = (status, tokens) != (200, answer.tokens)
        if wrong:
            seen.problems.append(f"{number}: the ledger has {status} {tokens}, the client {answer.tokens}")
    others = Counter(status for number, (status, _) in rows.items() if number not in seen.answers)
    if not others.keys() <= {499, 503, 429, 200}:
        seen.problems.append(f"rows of other requests: {others}")
    kinds["left before they were answered"] = others[499] + others[200]
    return kinds


def drift(values: list[int]) -> tuple[int, int]:
    """Bytes between the medians of the second and the last third, and how much there was between values of the second.

    The first third warms up: pages of the KV cache are taken when they are first written.
    """
    third = len(values) // 3
    middle, last = values[third : 2 * third], values[2 * third :]
    return round(statistics.median(last) - statistics.median(middle)), max(middle) - min(middle)


def check_memory(seen: Seen, minutes: float) -> None:
    """Print how memory went; growth beyond noise is a problem."""
    for name, values in seen.memory.items():
        grown, noise = drift(values)
        a_hour = grown / 2**20 / (minutes / 3) * 60
        print(
            f"memory of the {name}: {values[0] / 2**20:.0f} MiB at first, {max(values) / 2**20:.0f} at most, "
            f"{values[-1] / 2**20:.0f} at last; from the second third to the last {grown / 2**20:+.1f} MiB "
            f"({a_hour:+.0f} MiB an hour), within the second {noise / 2**20:.1f} MiB"
        )
        if grown > max(noise, NOISE_BYTES):
            seen.problems.append(f"the memory of the {name} grows")


async def measure(model: Path | None, minutes: float, seed: int) -> bool:
    """Run it; whether everything held."""
    seen = Seen()
    with tempfile.TemporaryDirectory() as directory:
        database = Path(directory) / "usage.db"
        keys = [make_key(database, "free"), make_key(database, "few", "--requests-per-minute", str(REQUESTS_A_MINUTE))]
        options = ["--database", str(database), "--parallel", str(SLOTS), "--max-waiting", str(WAITING)]
        options += ["--context", str(CONTEXT), *([] if model is None else ["--model", str(model)])]
        async with serving(*options, "--log-level", "error") as server:
            limits = httpx.Limits(max_connections=None, max_keepalive_connections=CLIENTS)
            async with httpx.AsyncClient(base_url=server.http.base_url, limits=limits, timeout=300) as http:
                watching = asyncio.create_task(watch(server, seen))
                until = time.monotonic() + 60 * minutes
                await asyncio.gather(
                    *(client(http, keys[i % 2], random.Random(f"{seed} {i}"), until, seen) for i in range(CLIENTS))
                )
                watching.cancel()
            await check_idle(server, keys[0], seen)
        kinds = check_ledger(database, seen)
    check_memory(seen, minutes)
    refused = ", ".join(f"{n} x {status}" for status, n in sorted(seen.refusals.items()))
    print(
        f"{CLIENTS} clients, {minutes:g} minutes: {kinds['answered']} answered, each with the row of its tokens; "
        f"{kinds['left']} left in the middle, {kinds['left before they were answered']} earlier; refused {refused}; "
        f"{len(seen.problems)} problems"
    )
    for problem in seen.problems[:MOST_SHOWN]:
        print("  " + problem)
    return not seen.problems


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--model", type=Path, default=None, help="a GGUF file; the default model")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    sys.exit(0 if asyncio.run(measure(options.model, options.minutes, options.seed)) else 1)


if __name__ == "__main__":
    main()
