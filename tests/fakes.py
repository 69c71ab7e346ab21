"""Small builders and readers that the tests share. Nothing here knows HTTP."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from afterword.engine.base import Engine, Generation
from afterword.engine.events import Chunk, Event, Finished, PromptDone, SampledToken, Started
from afterword.engine.request import GenerationRequest
from afterword.fields.sampling import Sampling

GREEDY = Sampling(temperature=0.0)


def generation_request(prompt: Sequence[int], **changes: Any) -> GenerationRequest:
    """A request for one greedy candidate of 16 tokens, with `changes` to its fields."""
    fields: dict[str, Any] = {"n_candidates": 1, "max_tokens": 16, "sampling": GREEDY, "seed": 0, "reproducible": True}
    return GenerationRequest(prompt=tuple(prompt), **(fields | changes))


@dataclass(frozen=True, slots=True)
class Told:
    """Everything an engine said about one prompt."""

    events: list[Event]

    @property
    def prompt(self) -> PromptDone:
        """The event that comes before all others but `Started`."""
        started, first = self.events[:2]
        assert isinstance(started, Started)
        assert isinstance(first, PromptDone)
        return first

    def chunks(self, index: int = 0) -> list[Chunk]:
        """The chunks of a candidate."""
        return [event for event in self.events if isinstance(event, Chunk) and event.index == index]

    def text(self, index: int = 0) -> str:
        """The whole text of a candidate."""
        return "".join(chunk.text for chunk in self.chunks(index))

    def tokens(self, index: int = 0) -> list[SampledToken]:
        """The listed tokens of a candidate."""
        return [token for chunk in self.chunks(index) for token in chunk.tokens]

    def finished(self, index: int = 0) -> Finished:
        """The end of a candidate."""
        (end,) = [event for event in self.events if isinstance(event, Finished) and event.index == index]
        return end


async def tell(generation: Generation) -> Told:
    """Read a generation to its end."""
    async with generation:
        return Told([event async for event in generation])


async def until_prompt_is_done(generation: Generation) -> PromptDone:
    """Read as far as `PromptDone`."""
    events = aiter(generation)
    while isinstance(event := await anext(events), Started):
        pass
    assert isinstance(event, PromptDone)
    return event


async def complete(engine: Engine, request: GenerationRequest) -> Told:
    """Run one request alone."""
    return await tell(engine.generate(request))


async def eventually(condition: Callable[[], bool]) -> None:
    """Give other tasks and threads their turns until `condition` holds; `TimeoutError` after ten seconds."""
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0)
