"""Clients that come and go at random leave nothing behind: no slot, no place in the queue, no changed answer."""

import asyncio
import gc
import random
from collections.abc import AsyncIterator

import pytest
from tests.fakes import complete, eventually, generation_request
from tests.models.engines import open_tiny
from tests.models.noise import any_request, read_some
from tests.models.prose import PROSE, excerpt
from tests.models.tiny import Tiny

from afterword.engine.base import Engine
from afterword.engine.llama.llama_engine import LlamaEngine
from afterword.engine.llama.sequence import Sequence
from afterword.fields.sampling import Sampling

N_CLIENTS = 300


@pytest.fixture(params=["F32", "Q8_0"])
async def engine(request: pytest.FixtureRequest) -> AsyncIterator[LlamaEngine]:
    async with open_tiny(Tiny(request.param), parallel=16, max_waiting=3 * N_CLIENTS) as opened:
        yield opened


def is_quiet(engine: Engine) -> bool:
    """Whether nothing runs or waits, and every slot is free, with or without tokens of the past."""
    stats = engine.stats()
    n_loose = stats.slots_free + stats.slots_idle
    return stats.running == stats.waiting == 0 and n_loose == engine.capabilities.n_slots


async def test_clients_that_leave_at_random_change_nothing(engine: LlamaEngine) -> None:
    texts = [
        engine.tokenizer.encode(text, add_bos=False, parse_special=False)[:300]
        for text in (PROSE, excerpt(900, len(PROSE)), excerpt(1234, len(PROSE)))
    ]
    reference = generation_request(
        texts[0][:280], n_candidates=3, sampling=Sampling(temperature=1.0), seed=4, logprobs=2, max_tokens=16
    )
    expected = await complete(engine, reference)
    rng = random.Random(7)

    async def client() -> None:
        """Reads some events and leaves, or is cut off wherever it stands."""
        reading = asyncio.create_task(read_some(engine, any_request(engine, rng, texts), rng.choice((1, 2, 5, 20))))
        if rng.random() < 0.5:
            for _ in range(rng.randrange(200)):
                await asyncio.sleep(0)
            reading.cancel()
        await asyncio.wait([reading])
        assert reading.cancelled() or reading.exception() is None

    await asyncio.gather(*(client() for _ in range(N_CLIENTS)))
    await eventually(lambda: is_quiet(engine))
    told = await complete(engine, reference)
    for index in range(3):
        assert told.tokens(index) == expected.tokens(index)
        assert told.text(index) == expected.text(index)


async def test_clients_that_leave_at_once_cost_next_to_nothing(engine: LlamaEngine) -> None:
    request = generation_request(range(200), n_candidates=2, max_tokens=200)
    for _ in range(N_CLIENTS):
        async with engine.generate(request):
            pass
    await eventually(lambda: is_quiet(engine) and engine.stats().cancelled == 2 * N_CLIENTS)
    # Whatever was begun was left within a few steps, long before its 400 tokens.
    assert engine.stats().completion_tokens < N_CLIENTS


async def test_no_sequence_outlives_its_client(engine: LlamaEngine) -> None:
    def n_sequences() -> int:
        gc.collect()
        return sum(isinstance(found, Sequence) for found in gc.get_objects())

    # What other tests of the same process still hold is no matter here.
    n_before = n_sequences()
    request = generation_request(range(40), n_candidates=2, max_tokens=100)
    for _ in range(100):
        await read_some(engine, request, 2)
    await complete(engine, generation_request([1, 2, 3], max_tokens=2))
    await eventually(lambda: is_quiet(engine))
    assert n_sequences() - n_before <= 4
