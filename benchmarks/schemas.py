"""What a schema costs, and whether answers are what it says: two hundred real schemas (`schema_set.py`).

    python -m benchmarks.schemas [--model FILE] [--rounds N] [--peer-bin DIR]

Every schema is asked for once, by 16 clients. Then answers that are longer than they may be are timed against the same
without a schema, in turn. llama-server gets every tenth schema, with the same prompts, on the same weights.
"""

import argparse
import asyncio
import json
import statistics
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jsonschema
from benchmarks.client import Client, Refused
from benchmarks.names import OURS, REFERENCE
from benchmarks.peers import afterword, llama_server
from benchmarks.places import cache, packaged_model
from benchmarks.schema_set import RealSchema, real_schemas
from benchmarks.servers import Shape, running

CLIENTS = 16
SHAPE = Shape(CLIENTS, 2048)
MOST_TOKENS = 256
TIMED_TOKENS = 64
TENTH = 10

Answer = tuple[str, str]
"""Why it ended, `refused` included, and its text or the refusal's."""


@dataclass(frozen=True, slots=True)
class Pass:
    """Answers to some schemas, in their order."""

    answers: list[Answer]
    n_tokens: int
    seconds: float


def main() -> None:
    """Print what was found, as JSON, each part when it is known."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, default=packaged_model())
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--peer-bin", type=Path, default=cache() / "bench-peers" / "bin")
    options = parser.parse_args()
    asyncio.run(measure(options))


async def measure(options: argparse.Namespace) -> None:
    """All figures."""
    schemas = real_schemas()
    _tell("packages", Counter(schema.package for schema in schemas))
    logs = cache() / "bench-logs"
    logs.mkdir(exist_ok=True)
    some = schemas[::TENTH]
    async with running(afterword(OURS, "--model", str(options.model)), SHAPE, logs) as server:
        first = await _all(server.client, schemas)
        _tell(OURS, _counted(schemas, first))
        long = [schema for schema, (end, _) in zip(schemas, first.answers, strict=True) if end == "length"]
        for n, rounds in ((1, 3 * options.rounds), (CLIENTS, options.rounds)):
            _tell(f"tokens/s with a schema / without, clients: {n}", await _ratio(server.client, long, n, rounds))
        _tell(f"{OURS}, every tenth", _counted(some, await _all(server.client, some)))
    program = options.peer_bin / "llama-server"
    if program.is_file():
        async with running(llama_server(REFERENCE, program, options.model, "--offline"), SHAPE, logs) as server:
            _tell(f"{REFERENCE}, every tenth", _counted(some, await _all(server.client, some)))


def _tell(what: str, found: object) -> None:
    print(json.dumps({what: found}, indent=1), flush=True)


def _request(schema: RealSchema, **fields: Any) -> dict[str, Any]:
    prompt = f"An example of '{schema.title}' as JSON:\n\n"
    return {"prompt": prompt, "temperature": 0.8, "seed": 1, "max_tokens": MOST_TOKENS, **fields}


async def _all(client: Client, schemas: Sequence[RealSchema]) -> Pass:
    """One answer to each."""
    return await _pass(client, [_request(schema, json_schema=schema.schema) for schema in schemas], CLIENTS)


async def _pass(client: Client, requests: Sequence[dict[str, Any]], n_clients: int) -> Pass:
    answers: list[Answer] = [("", "")] * len(requests)
    n_tokens = 0
    waiting = iter(enumerate(requests))

    async def one_client() -> None:
        nonlocal n_tokens
        for number, request in waiting:
            try:
                _, body = await client.complete(request)
            except Refused as refusal:
                answers[number] = ("refused", str(refusal))
                continue
            [choice] = body["choices"]
            answers[number] = (choice["finish_reason"], choice["text"])
            n_tokens += body["usage"]["completion_tokens"]

    begun = time.perf_counter()
    await asyncio.gather(*(one_client() for _ in range(n_clients)))
    return Pass(answers, n_tokens, time.perf_counter() - begun)


def _counted(schemas: Sequence[RealSchema], found: Pass) -> dict[str, Any]:
    """How many ended how, and how many of those that are whole are what their schema says."""
    ends = Counter(end for end, _ in found.answers)
    valid = [
        _is_valid(schema, text) for schema, (end, text) in zip(schemas, found.answers, strict=True) if end == "stop"
    ]
    return {
        "ends": ends,
        "valid": f"{sum(valid)} of {len(valid)}",
        "invalid": [
            (schema.file, text[:200])
            for schema, (end, text) in zip(schemas, found.answers, strict=True)
            if end == "stop" and not _is_valid(schema, text)
        ],
        "refusals": Counter(_reason(text) for end, text in found.answers if end == "refused").most_common(),
        "seconds": round(found.seconds, 1),
        "tokens/s": round(found.n_tokens / found.seconds, 1),
    }


def _is_valid(schema: RealSchema, text: str) -> bool:
    kind = jsonschema.validators.validator_for(schema.schema, default=jsonschema.Draft202012Validator)
    try:
        return bool(kind(schema.schema).is_valid(json.loads(text)))
    except (ValueError, jsonschema.exceptions._WrappedReferencingError):
        return False


def _reason(refusal: str) -> str:
    """A refusal without what is the schema's own."""
    words = refusal.partition("cannot be followed: ")[2] or refusal.partition('"message":"')[2] or refusal
    return words.partition('","type"')[0].replace("\\", "")[:60]


async def _ratio(client: Client, schemas: Sequence[RealSchema], n_clients: int, rounds: int) -> dict[str, Any]:
    """Tokens/s with a schema and without, of answers of the same length, as many at once as there are clients."""
    rates: list[tuple[float, float]] = []
    for number in range(rounds):
        some = [schemas[(number * n_clients + place) % len(schemas)] for place in range(n_clients)]
        free = [_request(schema, max_tokens=TIMED_TOKENS, ignore_eos=True) for schema in some]
        held = [_request(schema, max_tokens=TIMED_TOKENS, json_schema=schema.schema) for schema in some]
        # Which of the two goes first takes turns.
        passes = {}
        for name, requests in [("free", free), ("held", held)][:: 1 if number % 2 else -1]:
            passes[name] = await _pass(client, requests, n_clients)
        rates.append(
            (passes["held"].n_tokens / passes["held"].seconds, passes["free"].n_tokens / passes["free"].seconds)
        )
    ratios = sorted(held / free for held, free in rates)
    return {
        "ratio": round(statistics.median(ratios), 3),
        "lowest and highest": (round(ratios[0], 3), round(ratios[-1], 3)),
        "with": round(statistics.median(held for held, _ in rates), 1),
        "without": round(statistics.median(free for _, free in rates), 1),
    }


if __name__ == "__main__":
    main()
