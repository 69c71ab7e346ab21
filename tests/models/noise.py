"""Other clients: they keep an engine busy with requests of all kinds while a test looks at its own."""

import asyncio
import random
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from tests.fakes import generation_request

from afterword.engine.base import Engine
from afterword.engine.request import Beams, GenerationRequest, Guidance
from afterword.fields.sampling import Sampling


def any_request(engine: Engine, rng: random.Random, texts: Sequence[Sequence[int]]) -> GenerationRequest:
    """A request of random length, with or without a seed, scored or not, on the beginning of one of `texts`.

    Some search, some are guided.
    """
    text = rng.choice(texts)
    n_candidates = rng.choice((1, 1, 1, 2, 3))
    kind = rng.random()
    beams = Beams(1.0, rng.choice((True, False, "never"))) if kind < 0.1 else None
    negative = tuple(rng.choice(texts)[: rng.randint(1, 60)])
    guidance = Guidance(1.5, "", negative) if kind > 0.9 else None
    prompt = [*text[: rng.randint(1, len(text))], *(rng.randrange(engine.tokenizer.n_vocab) for _ in range(3))]
    return generation_request(
        prompt,
        n_candidates=n_candidates,
        beams=beams,
        guidance=guidance,
        max_tokens=rng.randint(1, 24),
        sampling=Sampling(temperature=rng.choice((0.0, 0.7, 1.0))),
        seed=rng.randrange(2**31),
        reproducible=rng.random() < 0.5,
        prompt_logprobs=rng.choice((None, None, 0, 2)),
        logprobs=rng.choice((None, 1)),
    )


async def read_some(engine: Engine, request: GenerationRequest, n_events: int) -> None:
    """Read at most that many events of a generation, then leave it."""
    async with engine.generate(request) as generation:
        async for _ in generation:
            n_events -= 1
            if n_events <= 0:
                return


@asynccontextmanager
async def other_clients(engine: Engine, n_clients: int, texts: Sequence[Sequence[int]]) -> AsyncIterator[None]:
    """Clients that send one request after the other, some leaving early, until the context is left.

    Entered once every client has had its first event. A client that fails ends the test.
    """
    started = asyncio.Semaphore(0)

    async def client(number: int) -> None:
        rng = random.Random(number)
        await read_some(engine, any_request(engine, rng, texts), 1)
        started.release()
        while True:
            await read_some(engine, any_request(engine, rng, texts), rng.choice((2, 5, 1000)))

    tasks = [asyncio.create_task(client(number)) for number in range(n_clients)]
    for _ in tasks:
        await started.acquire()
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        ended = await asyncio.gather(*tasks, return_exceptions=True)
    assert all(isinstance(end, asyncio.CancelledError) for end in ended), ended
