"""What the tests of architectures and of types ask their engines, which have four slots."""

import asyncio
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tests.fakes import Told, complete, generation_request

from afterword.engine.llama.llama_engine import LlamaEngine
from afterword.fields.sampling import Sampling

PROMPT = [place * 37 % 251 for place in range(70)]
N_SHARED = 50
BRANCH = [*PROMPT[:N_SHARED], 1, 2, 3]
OTHERS = [[(place * step + step) % 251 for place in range(30 + 9 * step)] for step in (3, 5, 7, 11)]
"""As many as the engine has slots."""

HALF = 0.5
"""The same of quantised numbers, whose products are added up in another order, with the other row rounded to 8 bits.
The most that was seen is 0.35; a product that is wrong makes 1 or more."""

Bits = list[tuple[object, ...]]


async def ask(engine: LlamaEngine, prompt: list[int], **changes: Any) -> Told:
    fields = {"max_tokens": 12, "logprobs": 2, "sampling": Sampling(temperature=1.0), "seed": 3}
    return await complete(engine, generation_request(prompt, **(fields | changes)))


async def fill_all_slots(engine: LlamaEngine) -> None:
    """So that nothing is left of any other prompt."""
    await asyncio.gather(*(ask(engine, other, max_tokens=1) for other in OTHERS))


def bits(told: Told) -> Bits:
    return [(t.id, t.logprob.hex(), [(i, v.hex()) for i, v in t.top]) for t in told.tokens()]


def score_bits(told: Told) -> list[str]:
    assert told.prompt.scores is not None
    return [logprob.hex() for logprob in told.prompt.scores.logprobs.tolist()]


async def scores(engine: LlamaEngine) -> NDArray[np.float64]:
    found = (await ask(engine, PROMPT, max_tokens=0, prompt_logprobs=1)).prompt.scores
    assert found is not None
    return found.logprobs
