"""How long multiple choice takes: by `/v1/score`, and by an echo of each choice, here and on vLLM.

python -m benchmarks.scores                                     the default model and those of `make test-models`
python -m benchmarks.scores --model FILE --vllm DIR --rounds 3  one, beside vLLM as `build_vllm.sh` has put it there

An echo is what lm-eval's `local-completions` sends, but sixteen choices at a time, which is faster than one by one. The
ways take turns within a round, on questions that are new in each. Sums by `/v1/score` and by our echo are compared.
"""

import argparse
import asyncio
import json
import math
import random
import statistics
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from benchmarks.own_server import serving
from benchmarks.peers import vllm
from benchmarks.places import cache, known_models
from benchmarks.prompts import WORDS
from benchmarks.servers import Shape, running

CHOICES_AT_ONCE = 16
PAIRS_AT_ONCE = 256
SHAPE = Shape(slots=16, context=2048)

Pair = tuple[list[int], list[int]]
"""The tokens of a question and of one of its choices."""


@dataclass(frozen=True, slots=True)
class Work:
    """A kind of multiple choice."""

    name: str
    n_questions: int
    n_words: int
    """Of each question."""
    n_choice_words: int
    """Of each of its four choices."""


WORKS = (
    Work("labels", 40, 40, 1),
    Work("sentences", 24, 45, 6),
    Work("few-shot", 10, 500, 2),
)

Ask = Callable[[Sequence[Pair]], Awaitable[list[float]]]
"""The log-probability of each choice."""


def main() -> None:
    """Measure what the command line names."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--model", type=Path, action="append", help="a GGUF file; may be repeated")
    parser.add_argument("--vllm", type=Path, help="directory of vLLM's environment and the same model's copy for it")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    for model in options.model or known_models():
        asyncio.run(_measure(model.resolve(), options.vllm, options.rounds))


async def _measure(model: Path, vllm_directory: Path | None, rounds: int) -> None:
    async with AsyncExitStack() as stack:
        own = await stack.enter_async_context(
            serving("--model", str(model), "--parallel", str(SHAPE.slots), "--context", str(SHAPE.context))
        )
        ways: dict[str, Ask] = {"score": _by_score(own.http), "echo": _by_echo(own.http)}
        if vllm_directory is not None:
            ways["vllm echo"] = _by_echo(await stack.enter_async_context(_vllm(vllm_directory)))
        seconds: dict[tuple[str, str], list[float]] = {}
        worst = 0.0
        for number in range(rounds):
            for work in WORKS:
                pairs = await _pairs(own.http, work, random.Random(f"{work.name} {number}"))
                sums = {}
                for way, ask in ways.items():
                    started = time.perf_counter()
                    sums[way] = await ask(pairs)
                    seconds.setdefault((work.name, way), []).append(time.perf_counter() - started)
                worst = max(worst, *(abs(a - b) for a, b in zip(sums["score"], sums["echo"], strict=True)))
        print(json.dumps({"model": model.name, "largest difference": worst, "rounds": rounds}))
        for work in WORKS:
            print(json.dumps(_row(work.name, {way: seconds[work.name, way] for way in ways})), flush=True)


def _row(work: str, seconds: dict[str, list[float]]) -> dict[str, object]:
    """Medians, and the median of the rounds' ratios."""
    row: dict[str, object] = {"work": work}
    for way, values in seconds.items():
        row[f"{way}, s"] = round(statistics.median(values), 2)
        if way != "score":
            ratios = [value / first for value, first in zip(values, seconds["score"], strict=True)]
            row[f"{way} / score"] = round(statistics.median(ratios), 2)
    return row


async def _pairs(http: httpx.AsyncClient, work: Work, chance: random.Random) -> list[Pair]:
    pairs: list[Pair] = []
    for _ in range(work.n_questions):
        question = " ".join(chance.choices(WORDS, k=work.n_words))
        head = await _tokens(http, question)
        for _ in range(4):
            choice = " ".join(chance.choices(WORDS, k=work.n_choice_words))
            pairs.append((head, (await _tokens(http, f"{question} {choice}"))[len(head) :]))
    return pairs


async def _tokens(http: httpx.AsyncClient, text: str) -> list[int]:
    tokens: list[int] = (await http.post("/tokenize", json={"prompt": text})).json()["tokens"]
    return tokens


def _by_score(http: httpx.AsyncClient) -> Ask:
    async def ask(pairs: Sequence[Pair]) -> list[float]:
        sums: list[float] = []
        for start in range(0, len(pairs), PAIRS_AT_ONCE):
            answer = await _posted(http, "/v1/score", {"pairs": pairs[start : start + PAIRS_AT_ONCE]})
            sums += [one["sum_logprob"] for one in answer["data"]]
        return sums

    return ask


def _by_echo(http: httpx.AsyncClient) -> Ask:
    async def ask(pairs: Sequence[Pair]) -> list[float]:
        sums: list[float] = []
        for start in range(0, len(pairs), CHOICES_AT_ONCE):
            some = pairs[start : start + CHOICES_AT_ONCE]
            body = {"prompt": [[*head, *choice] for head, choice in some], "echo": True, "logprobs": 1}
            answer = await _posted(http, "/v1/completions", body | {"max_tokens": 1, "temperature": 0})
            for (head, _), one in zip(some, sorted(answer["choices"], key=lambda one: one["index"]), strict=True):
                sums.append(math.fsum(one["logprobs"]["token_logprobs"][len(head) : -1]))
        return sums

    return ask


async def _posted(http: httpx.AsyncClient, path: str, body: dict[str, object]) -> dict[str, list[dict[str, Any]]]:
    answer = await http.post(path, json=body, timeout=None)
    answer.raise_for_status()
    found: dict[str, list[dict[str, Any]]] = answer.json()
    return found


@asynccontextmanager
async def _vllm(directory: Path) -> AsyncIterator[httpx.AsyncClient]:
    logs = cache() / "bench-logs"
    logs.mkdir(exist_ok=True)
    async with (
        running(vllm(directory.resolve()), SHAPE, logs) as server,
        httpx.AsyncClient(base_url=f"http://127.0.0.1:{server.port}") as http,
    ):
        yield http


if __name__ == "__main__":
    main()
