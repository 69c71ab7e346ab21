"""Real weights over HTTP: seeded requests have the same bytes, prefixes are shared, numbers are near llama.cpp's.

Gemma has sliding windows, Qwen's file four types of numbers, the llama of 1.0 B flat distributions; the default model
is tried in every type, with a part of its layers.
"""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from tests.engine.llama.reference import logprobs_by_llama_cpp
from tests.fakes import complete, generation_request
from tests.models.downloads import GEMMA, QWEN, model_path
from tests.models.engines import settings
from tests.models.noise import other_clients
from tests.models.prose import PROSE, excerpt
from tests.models.random_llama import billion
from tests.models.requantised import FILE_TYPES, requantise

from afterword.api.app import create_app
from afterword.config.model import DEFAULT_MODEL
from afterword.config.tree import ServerConfig
from afterword.engine.llama.llama_engine import LlamaEngine
from afterword.engine.llama.llama_loading import load_engine
from afterword.loading.embedded import model_file
from afterword.registry import Registry, ServedModel

pytestmark = pytest.mark.models

N_CLIENTS = 14
NEAR = 0.04
"""Most that log-probabilities differ from llama.cpp's, as a share of what they are: both round rows to 8 bits, each in
its own way. The most that was seen is 0.02."""
IN_SUM = 0.01
"""The same of their sum: the differences have no direction."""

FORM = {
    "json_schema": {
        "type": "object",
        "properties": {"name": {"type": "string"}, "born": {"type": "integer"}},
        "required": ["name", "born"],
        "additionalProperties": False,
    },
    "max_tokens": 16,
}
"""What the answer to every fourth request must be, as far as it gets."""

WHOLE: dict[str, Callable[[], Path]] = {
    "default": lambda: model_file(DEFAULT_MODEL.name),
    "gemma": lambda: model_path(GEMMA),
    "qwen": lambda: model_path(QWEN),
    "billion": billion,
}
"""Files that are tried as they are."""


@dataclass(frozen=True, slots=True)
class Real:
    """A model's file, and how many requests it is asked."""

    path: Path
    n_requests: int


@pytest.fixture(scope="module", params=[*WHOLE, *FILE_TYPES])
def real(request: pytest.FixtureRequest, short_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Real:
    if request.param in WHOLE:
        return Real(WHOLE[request.param](), 20)
    directory = tmp_path_factory.mktemp(request.param)
    floats = requantise(short_model, directory / "floats.gguf", "F16")
    return Real(requantise(floats, directory / "model.gguf", request.param), 4)


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


def load(path: Path, cache: Path, *, context: int = 512, parallel: int = 16) -> LlamaEngine:
    return load_engine(settings(path, cache, context=context, parallel=parallel, max_waiting=200, threads=2))


@pytest.fixture(scope="module")
def engine(real: Real, cache: Path) -> Iterator[LlamaEngine]:
    """A test must leave it idle."""
    opened = load(real.path, cache)
    yield opened
    asyncio.run(opened.aclose())


def http(engine: LlamaEngine) -> AbstractAsyncContextManager[httpx.AsyncClient]:
    app = create_app(Registry([ServedModel("default", engine, created=0)]), ServerConfig())
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost", timeout=None)


async def post(client: httpx.AsyncClient, **body: Any) -> dict[str, Any]:
    response = await client.post("/v1/completions", json=body)
    assert response.status_code == 200, response.text
    answer: dict[str, Any] = response.json()
    return answer


async def seeded(client: httpx.AsyncClient, number: int) -> dict[str, Any]:
    """One of twenty answers without what may differ: its name, its time, and how much was found in the cache."""
    start = 0 if number % 2 else 37 * number
    answer = await post(
        client,
        prompt=excerpt(start, 20 + 17 * number),
        **{"max_tokens": 6} | (FORM if number % 4 == 1 else {}),
        seed=number - 3,
        logprobs=2,
        n=1 + number % 4 // 3,
        echo=number % 3 == 0,
    )
    del answer["id"], answer["created"], answer["usage"]["prompt_tokens_details"]
    return answer


async def test_seeded_answers_are_the_same_alone_beside_others_and_after_a_restart(
    real: Real, engine: LlamaEngine, cache: Path
) -> None:
    numbers = range(real.n_requests)
    texts = [engine.tokenizer.encode(excerpt(at, 160), add_bos=True, parse_special=False) for at in (0, 900, 1234)]
    async with http(engine) as client:
        (card,) = (await client.get("/v1/models")).json()["data"]
        assert card["capabilities"]["reproducible"] is True
        alone = [await seeded(client, number) for number in numbers]
        async with other_clients(engine, N_CLIENTS, texts):
            beside = await asyncio.gather(*(seeded(client, number) for number in numbers))
    restarted = load(real.path, cache)
    async with http(restarted) as client:
        after = [await seeded(client, number) for number in reversed(numbers)][::-1]
    await restarted.aclose()
    assert beside == alone
    assert after == alone


async def test_typing_and_scoring_share_what_was_read(engine: LlamaEngine) -> None:
    async with http(engine) as client:
        for length in (300, 305, 311):
            typed = await post(client, prompt="Typed. " + excerpt(0, length), max_tokens=2)
        for choice in (" light", " boat", " price"):
            scored = await post(
                client, prompt="Scored. " + excerpt(0, 300) + choice, max_tokens=0, echo=True, logprobs=1
            )
    for answer in (typed, scored):
        usage = answer["usage"]
        assert usage["prompt_tokens_details"]["cached_tokens"] > 0.8 * usage["prompt_tokens"]


async def test_texts_that_are_longer_than_the_window_are_shared_to_the_same_bytes(cache: Path) -> None:
    answers: list[list[tuple[int, str]]] = []
    for is_shared in (False, True):
        engine = load(model_path(GEMMA), cache, context=1500, parallel=4)
        text = engine.tokenizer.encode(PROSE, add_bos=True, parse_special=False) * 4
        assert len(text) > 1200
        if is_shared:
            await complete(engine, generation_request(text[:1200], max_tokens=1))
        told = await complete(
            engine, generation_request([*text[:700], 2000, 3000], n_candidates=3, max_tokens=4, seed=1, logprobs=0)
        )
        assert told.prompt.n_cached == (700 if is_shared else 0)
        answers.append([(token.id, token.logprob.hex()) for index in range(3) for token in told.tokens(index)])
        await engine.aclose()
    fresh, shared = answers
    assert shared == fresh


async def test_log_probabilities_are_near_llama_cpps(real: Real, engine: LlamaEngine, tmp_path: Path) -> None:
    prompt = engine.tokenizer.encode(PROSE, add_bos=engine.tokenizer.add_bos, parse_special=False)[:80]
    (tmp_path / "model.gguf").symlink_to(real.path)
    expected = logprobs_by_llama_cpp(tmp_path, prompt)["model"][np.arange(len(prompt) - 1), prompt[1:]]
    async with http(engine) as client:
        answer = await post(client, prompt=prompt, max_tokens=0, echo=True, logprobs=0)
    found = answer["choices"][0]["logprobs"]["token_logprobs"][1:]
    away = np.array(found) - expected
    assert np.abs(away).mean() < NEAR * np.abs(expected).mean()
    assert abs(away.sum()) < IN_SUM * np.abs(expected.sum())


@pytest.mark.parametrize(
    ("prompt", "suffix", "middle"),
    [
        ("def add(a, b):\n    return ", "\n\nprint(add(2, 3))\n", "a + b"),
        ("numbers = [3, 1, 2]\nlargest = ", "(numbers)\nprint(largest)\n", "max"),
        ("import json\n\ndef read(path):\n    with open(path) as file:\n        return json.", "(file)\n", "load"),
    ],
)
async def test_infill_with_real_tokens_finds_the_middle(cache: Path, prompt: str, suffix: str, middle: str) -> None:
    engine = load(model_path(QWEN), cache)
    assert engine.tokenizer.infill is not None
    async with http(engine) as client:
        answer = await post(client, prompt=prompt, suffix=suffix, max_tokens=12, temperature=0)
    await engine.aclose()
    assert answer["choices"][0]["text"].strip().startswith(middle)
