"""Runs a `Completion` on its engine: one generation per prompt, their events merged into one iterator.

Does not interpret the events.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Protocol

from typing_extensions import override

from afterword.completions.completion import Completion
from afterword.engine.base import Engine, Generation
from afterword.engine.events import Event

READ_AHEAD = 2
"""Events of one prompt in the merged queue: enough for its last chunk and its end, which come together."""


class CompletionEvents(Protocol):
    """A request being completed: iterates over (prompt number, event), each prompt's own in order."""

    def __aiter__(self) -> AsyncIterator[tuple[int, Event]]: ...

    async def __anext__(self) -> tuple[int, Event]: ...

    def end(self, prompt_index: int, index: int) -> None:
        """Stop sampling one candidate of a prompt (`Generation.end`)."""
        ...

    def unread(self) -> Iterator[tuple[int, Event]]:
        """Take the events that have arrived and were not read (`Generation.unread`)."""
        ...


@asynccontextmanager
async def run(completion: Completion, engine: Engine) -> AsyncIterator[CompletionEvents]:
    """The request's events.

    Entering submits all prompts before anything is awaited for, or none of them: then it raises `Overloaded` or
    `EngineFailed`. Iterating raises `EngineFailed` if one generation breaks, which ends the others too. Leaving
    cancels whatever still runs. One reader, on the engine's event loop.
    """
    engine.check_capacity(sum(request.n_sequences for request in completion.generations))
    async with AsyncExitStack() as stack:
        generations = []
        for request in completion.generations:
            generations.append(engine.generate(request))
            # Registered at once: if a later prompt is refused, those before it are cancelled.
            stack.push_async_exit(generations[-1])
        # A second loop: a remote engine takes a moment to accept, and so all prompts wait for it at the same time.
        for generation in generations:
            await generation.__aenter__()
        if len(generations) == 1:
            yield _Single(generations[0])
            return
        merged = _Merged(generations)
        try:
            yield merged
        finally:
            await merged.aclose()


class _Single(CompletionEvents):
    """The events of the only prompt, without a task in between."""

    def __init__(self, generation: Generation) -> None:
        self._generation = generation
        self._events = aiter(generation)

    @override
    def __aiter__(self) -> AsyncIterator[tuple[int, Event]]:
        return self

    @override
    async def __anext__(self) -> tuple[int, Event]:
        return 0, await anext(self._events)

    @override
    def end(self, prompt_index: int, index: int) -> None:
        assert prompt_index == 0
        self._generation.end(index)

    @override
    def unread(self) -> Iterator[tuple[int, Event]]:
        return ((0, event) for event in self._generation.unread())


class _Merged(CompletionEvents):
    """The events of several prompts as they come, one task per prompt.

    In order of arrival, and no prompt has more than a few events in the queue: so a fast prompt cannot delay a slow
    one, and a slow reader's events wait, and are merged, in the engine's own mailboxes.
    """

    def __init__(self, generations: Sequence[Generation]) -> None:
        self._generations = generations
        self._queue: asyncio.Queue[tuple[int, Event] | None] = asyncio.Queue()
        self._room = [asyncio.Semaphore(READ_AHEAD) for _ in generations]
        """Events that each prompt may still put into the queue."""
        self._n_open = len(generations)
        self._failure: Exception | None = None
        self._tasks = [asyncio.create_task(self._forward(i, aiter(one))) for i, one in enumerate(generations)]

    @override
    def __aiter__(self) -> AsyncIterator[tuple[int, Event]]:
        return self

    @override
    async def __anext__(self) -> tuple[int, Event]:
        while self._n_open > 0:
            item = await self._queue.get()
            if item is not None:
                self._room[item[0]].release()
                return item
            self._n_open -= 1
            if self._failure is not None:
                raise self._failure
        raise StopAsyncIteration

    @override
    def end(self, prompt_index: int, index: int) -> None:
        self._generations[prompt_index].end(index)

    @override
    def unread(self) -> Iterator[tuple[int, Event]]:
        while not self._queue.empty():
            item = self._queue.get_nowait()
            if item is not None:
                yield item
        for prompt_index, generation in enumerate(self._generations):
            yield from ((prompt_index, event) for event in generation.unread())

    async def aclose(self) -> None:
        """Stop forwarding."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _forward(self, prompt_index: int, events: AsyncIterator[Event]) -> None:
        """Put one prompt's events into the queue, then None: this prompt has ended, well or not."""
        try:
            # Capacity first: no event is ever in here and nowhere else.
            while await self._room[prompt_index].acquire():
                self._queue.put_nowait((prompt_index, await anext(events)))
        except StopAsyncIteration:
            pass
        except Exception as error:
            self._failure = error
        self._queue.put_nowait(None)
