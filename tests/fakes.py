"""Small stand-ins and builders that the tests share. Nothing here knows HTTP."""

from collections.abc import Sequence
from typing import Any

from afterword.engine.request import GenerationRequest, Sampling

GREEDY = Sampling(temperature=0.0)


def generation_request(prompt: Sequence[int], **changes: Any) -> GenerationRequest:
    """A request for one greedy candidate of 16 tokens, with `changes` to its fields."""
    fields: dict[str, Any] = {"n_candidates": 1, "max_tokens": 16, "sampling": GREEDY, "seed": 0, "reproducible": True}
    return GenerationRequest(prompt=tuple(prompt), **(fields | changes))
