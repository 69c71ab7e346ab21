"""A seeded request is answered with the same bits whatever else a real engine does (docs/rules.md#same-bytes)."""

import asyncio
import random
from collections.abc import Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.fakes import Told, complete, generation_request
from tests.models.engines import open_tiny, settings
from tests.models.noise import other_clients
from tests.models.prose import PROSE, excerpt
from tests.models.tiny import FILE_TYPES, Tiny

from afterword.api.app import create_app
from afterword.config.tree import ServerConfig
from afterword.engine.base import Engine
from afterword.engine.llama.llama_engine import LlamaEngine
from afterword.engine.llama.llama_loading import load_engine
from afterword.engine.request import GenerationRequest
from afterword.fields.sampling import Sampling
from afterword.registry import Registry, ServedModel

LENGTHS = (1, 2, 3, 9, 17, 40, 63, 64, 65, 90, 127, 128, 150, 192, 230, 255, 256, 257, 350, 400)
"""Tokens of the prompts: the shortest, and around the 256 cells by which llama.cpp's attention grows."""

Bits = list[tuple[object, ...]]


def bits(told: Told, n_candidates: int) -> Bits:
    """Everything of an answer that a client can see, floats exactly."""
    seen: Bits = []
    scores = told.prompt.scores
    if scores is not None:
        seen.append((scores.logprobs.tobytes(), scores.top_ids.tobytes(), scores.top_logprobs.tobytes()))
    for index in range(n_candidates):
        tokens = [(t.id, t.offset, t.logprob.hex(), [(i, v.hex()) for i, v in t.top]) for t in told.tokens(index)]
        seen.append((told.text(index), tokens, told.finished(index)))
    return seen


def seeded_requests(engine: Engine, lengths: tuple[int, ...], max_tokens: int) -> list[GenerationRequest]:
    """Every second prompt is a beginning of the same text, every third one scored, every fourth has one candidate."""

    def prompt(number: int, n: int) -> list[int]:
        text = PROSE * 2 if number % 2 == 0 else f"{number}. " + excerpt(300 * number, len(PROSE))
        return engine.tokenizer.encode(text, add_bos=False, parse_special=False)[:n]

    return [
        generation_request(
            prompt(number, n),
            n_candidates=1 if number % 4 == 3 else 2,
            max_tokens=max_tokens,
            sampling=Sampling(temperature=1.0, top_p=0.95),
            seed=number - 3,
            logprobs=3,
            prompt_logprobs=2 if number % 3 == 0 else None,
        )
        for number, n in enumerate(lengths)
    ]


def other_texts(engine: Engine, n: int) -> list[list[int]]:
    """What the other clients write about: partly the same text as the requests that are looked at."""
    texts = (PROSE, excerpt(900, len(PROSE)), excerpt(1234, len(PROSE)))
    return [engine.tokenizer.encode(text, add_bos=False, parse_special=False)[:n] for text in texts]


async def answer(engine: Engine, request: GenerationRequest) -> Bits:
    return bits(await complete(engine, request), request.n_candidates)


async def one_by_one(engine: Engine, requests: list[GenerationRequest]) -> list[Bits]:
    return [await answer(engine, request) for request in requests]


async def all_at_once(engine: Engine, requests: list[GenerationRequest]) -> list[Bits]:
    return await asyncio.gather(*(answer(engine, request) for request in requests))


@pytest.mark.parametrize("weights", FILE_TYPES)
async def test_seeded_answers_keep_their_bits_beside_others(weights: str) -> None:
    async with open_tiny(Tiny(weights), context=1000, parallel=1) as lonely:
        requests = seeded_requests(lonely, (*LENGTHS, 600, 800), 8)
        alone = await one_by_one(lonely, requests)
    shuffled = random.Random(weights).sample(range(len(requests)), len(requests))
    async with open_tiny(Tiny(weights), context=1000, parallel=16, max_waiting=500) as engine:
        assert await one_by_one(engine, requests) == alone
        async with other_clients(engine, 14, other_texts(engine, 400)):
            beside = await all_at_once(engine, [requests[number] for number in shuffled])
    assert beside == [alone[number] for number in shuffled]


@pytest.mark.parametrize("weights", ["F32", "BF16", "Q8_0"])
@pytest.mark.parametrize("n_prompt", [1, 250, 300, 520, 700])
async def test_lone_sequence_keeps_its_bits_beside_others(weights: str, n_prompt: int) -> None:
    # Two threads: what a single row's work is split into must not show either.
    async with open_tiny(Tiny(weights), context=1000, parallel=8, threads=2) as engine:
        first, *others = seeded_requests(engine, (n_prompt, n_prompt + 5, n_prompt + 10), 24)
        request = replace(first, n_candidates=1)
        alone = await answer(engine, request)
        together = await all_at_once(engine, [request, *others])
        assert together[0] == alone


@pytest.mark.parametrize("weights", ["F32", "Q8_0"])
async def test_eight_candidates_of_600_tokens_prefill_once_and_keep_their_bits(weights: str) -> None:
    async with (
        open_tiny(Tiny(weights), parallel=1, context=1000) as lonely,
        open_tiny(Tiny(weights), parallel=16, context=1000) as engine,
    ):
        prompt = engine.tokenizer.encode(PROSE, add_bos=False, parse_special=False)[:600]
        request = generation_request(
            prompt, n_candidates=8, max_tokens=20, logprobs=2, sampling=Sampling(temperature=1.0), seed=5
        )
        forked = await complete(engine, request)
        assert engine.stats().prefill_tokens == 600 + 7
        alone = await complete(lonely, request)
        for index in range(8):
            assert forked.tokens(index) == alone.tokens(index)
            assert forked.text(index) == alone.text(index)


async def test_prefix_cached_by_requests_without_a_seed_changes_no_seeded_answer() -> None:
    async with (
        open_tiny(Tiny(), parallel=1, context=1000) as fresh,
        open_tiny(Tiny(), parallel=8, context=1000) as used,
    ):
        (request,) = seeded_requests(fresh, (500,), 16)
        for n in (499, 500, 450, 100):
            await complete(used, generation_request(request.prompt[:n], reproducible=False, prompt_logprobs=2))
        assert await answer(used, request) == await answer(fresh, request)


async def reusing_what_was_sampled(engine: Engine, text: Sequence[int]) -> tuple[GenerationRequest, list[int]]:
    """Requests without a seed, each after the other's answer; a seeded request for all of it, and what each reused.

    The second one's prompt is computed behind sampled tokens, which leave what a prompt's would have left.
    """
    begun = await complete(engine, generation_request(text[:100], reproducible=False, max_tokens=40, logprobs=0))
    said = [token.id for token in begun.tokens()]
    longer = [*text[:100], *said[:30], (said[30] + 1) % 256, *text[100:160]]
    went_on = await complete(engine, generation_request(longer, reproducible=False, max_tokens=4))
    request = generation_request(
        [*longer, *text[160:180]],
        n_candidates=2,
        max_tokens=16,
        sampling=Sampling(temperature=1.0),
        seed=3,
        logprobs=3,
    )
    return request, [begun.prompt.n_cached, went_on.prompt.n_cached]


@pytest.mark.parametrize("weights", FILE_TYPES)
async def test_seeded_request_that_reuses_what_was_sampled_is_answered_as_by_a_fresh_engine(weights: str) -> None:
    async with open_tiny(Tiny(weights), parallel=1) as fresh, open_tiny(Tiny(weights), parallel=4) as used:
        text = used.tokenizer.encode(PROSE, add_bos=False, parse_special=False)
        request, n_reused = await reusing_what_was_sampled(used, text)
        assert n_reused == [0, 130]
        told = await complete(used, request)
        assert told.prompt.n_cached == 191
        assert bits(told, 2) == await answer(fresh, request)
        again = await complete(used, request)
        assert again.prompt.n_cached == len(request.prompt) - 1
        assert bits(again, 2) == bits(told, 2)


@pytest.fixture(scope="module")
def short_engine(short_model: Path) -> Iterator[LlamaEngine]:
    """Real weights with 16 slots of 1024 tokens and two threads, as most people run them; a test must leave it idle."""
    engine = load_engine(settings(short_model, short_model.parent, context=1024, parallel=16, threads=2))
    yield engine
    asyncio.run(engine.aclose())


@pytest.mark.model
async def test_seeded_request_to_real_weights_reuses_what_was_sampled(
    short_engine: LlamaEngine, short_model: Path
) -> None:
    text = short_engine.tokenizer.encode("Sampled. " + PROSE, add_bos=False, parse_special=False)
    request, n_reused = await reusing_what_was_sampled(short_engine, text)
    assert n_reused[1] == 130
    told = await complete(short_engine, request)
    assert told.prompt.n_cached == 191
    fresh = load_engine(settings(short_model, short_model.parent, context=1024, parallel=2, threads=2))
    alone = await answer(fresh, request)
    await fresh.aclose()
    assert bits(told, 2) == alone


def bodies(engine: Engine) -> list[dict[str, Any]]:
    """Twenty requests as a client sends them: sampled, with log-probabilities, most of two choices."""
    return [
        {
            "prompt": list(request.prompt),
            "n": request.n_candidates,
            "logprobs": 3,
            "max_tokens": request.max_tokens,
            "seed": request.seed,
            "echo": request.prompt_logprobs is not None,
        }
        for request in seeded_requests(engine, LENGTHS, 6)
    ]


def http(engine: Engine) -> AbstractAsyncContextManager[httpx.AsyncClient]:
    app = create_app(Registry([ServedModel("default", engine, created=0)]), ServerConfig())
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost", timeout=None)


async def post(client: httpx.AsyncClient, body: dict[str, Any]) -> dict[str, Any]:
    """The JSON of an answer without what may differ: its name, its time, and how much was found in the cache."""
    response = await client.post("/v1/completions", json=body)
    assert response.status_code == 200, response.text
    answer: dict[str, Any] = response.json()
    del answer["id"], answer["created"], answer["usage"]["prompt_tokens_details"]
    return answer


@pytest.mark.model
async def test_seeded_answers_are_the_same_alone_beside_others_and_after_a_restart(
    short_engine: LlamaEngine, short_model: Path
) -> None:
    assert short_engine.capabilities.reproducible
    sent = bodies(short_engine)
    async with http(short_engine) as client:
        alone = [await post(client, body) for body in sent]
        async with other_clients(short_engine, 14, other_texts(short_engine, 120)):
            beside = await asyncio.gather(*(post(client, body) for body in sent))
    assert beside == alone
    restarted = load_engine(settings(short_model, short_model.parent, context=1024, parallel=16, threads=2))
    async with http(restarted) as client:
        again = [await post(client, body) for body in sent]
    await restarted.aclose()
    assert again == alone
