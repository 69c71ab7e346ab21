"""A model whose memory cannot be cut: rows that depend on nothing need no cut to be the same to the bit."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import numpy as np
import pytest
from tests.fakes import Told, complete, generation_request
from tests.models.engines import settings
from tests.models.recurrent import write_recurrent

from afterword.engine.llama.llama_engine import LlamaEngine
from afterword.engine.llama.llama_loading import load_engine

LENGTHS = (100, 120, 57, 1, 300, 290)


@pytest.fixture
async def engine(tmp_path: Path) -> AsyncIterator[LlamaEngine]:
    opened = load_engine(settings(write_recurrent(tmp_path), tmp_path))
    yield opened
    await opened.aclose()


async def test_prompts_read_together_are_answered_as_alone(engine: LlamaEngine) -> None:
    assert engine.capabilities.reproducible
    random = np.random.default_rng(1)
    requests = [
        generation_request(
            random.integers(0, 256, n).tolist(), max_tokens=8, logprobs=1, prompt_logprobs=1 if n == 57 else None
        )
        for n in LENGTHS
    ]
    together = await asyncio.gather(*(complete(engine, request) for request in requests))
    n_steps = engine.stats().steps
    alone = [await complete(engine, request) for request in requests]
    assert n_steps < engine.stats().steps - n_steps, "they shared calls"
    for shared, own in zip(together, alone, strict=True):
        assert [token.id for token in shared.tokens()] == [token.id for token in own.tokens()]
        assert [token.logprob for token in shared.tokens()] == [token.logprob for token in own.tokens()]


async def test_a_prompt_that_goes_on_reuses_the_whole_slot(engine: LlamaEngine) -> None:
    await complete(engine, generation_request(range(100), max_tokens=1))
    told = await complete(engine, generation_request([*range(100), 7, 8], max_tokens=1))
    assert told.prompt.n_cached == 100
    branch = await complete(engine, generation_request([*range(50), 3, 4], max_tokens=1))
    assert branch.prompt.n_cached == 0


async def test_a_seeded_answer_is_the_same_alone_beside_others_from_a_kept_state_and_after_a_restart(
    tmp_path: Path, engine: LlamaEngine
) -> None:
    text = np.random.default_rng(2).integers(0, 256, 400).tolist()
    request = generation_request(text, n_candidates=3, max_tokens=8, seed=3, logprobs=1)

    def bits(told: Told) -> list[tuple[int, str]]:
        return [(token.id, token.logprob.hex()) for index in range(3) for token in told.tokens(index)]

    alone = await complete(engine, request)
    again = await complete(engine, request)
    assert (alone.prompt.n_cached, again.prompt.n_cached) == (0, 399)
    restarted = load_engine(settings(tmp_path / "recurrent.gguf", tmp_path))
    branches = [generation_request([*text[:300], number], max_tokens=20) for number in range(5)]
    beside, *_ = await asyncio.gather(*(complete(restarted, each) for each in (request, *branches)))
    edited = await complete(restarted, generation_request([*text[:300], 7, 8], max_tokens=1))
    await restarted.aclose()
    assert edited.prompt.n_cached == 300
    assert bits(beside) == bits(again) == bits(alone)


@pytest.mark.parametrize("parallel", [16, 4])
async def test_native_02_there_are_as_many_slots_as_for_other_models(tmp_path: Path, parallel: int) -> None:
    engine = load_engine(settings(write_recurrent(tmp_path), tmp_path, parallel=parallel))
    assert engine.capabilities.n_slots == parallel
    assert engine.capabilities.reproducible
    await engine.aclose()
