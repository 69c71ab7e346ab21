"""From an engine's thread to the one reader of a prompt's events. Memory stays bounded however slow the reader is.

Knows no engine: the engine posts in the order of `events.py`. Everything but `deliver` and `call_on` runs on the event
loop that the mailbox was made for.
"""

from asyncio import AbstractEventLoop, Future
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from types import TracebackType
from typing import Self

from typing_extensions import override

from afterword.engine.base import Generation
from afterword.engine.events import Chunk, Event, Finished
from afterword.errors import AfterwordError


class Mailbox:
    """The events of one prompt, posted and not yet read.

    Iteration ends after `Finished` of the last candidate. Consecutive chunks of a candidate that carry no tokens
    wait as one, so what is kept grows with the text and not with the number of events.
    """

    def __init__(self, loop: AbstractEventLoop, n_candidates: int) -> None:
        self.loop = loop
        """The loop of its reader."""
        self._n_unfinished = n_candidates
        """Candidates whose `Finished` has not been posted."""
        self._queue: deque[Event | _Backlog] = deque()
        self._backlogs: dict[int, _Backlog] = {}
        """The queued backlog that each candidate's next chunk is merged into."""
        self._error: AfterwordError | None = None
        self._reader: Future[None] | None = None

    @property
    def is_complete(self) -> bool:
        """Every candidate has finished, or the engine has failed: nothing more counts."""
        return self._n_unfinished == 0 or self._error is not None

    def post(self, items: "Iterable[EventOrError]") -> None:
        """Queue events and wake the reader.

        The reader gets an error after everything that was posted before it. Only the first error counts, and none after
        the end.
        """
        for item in items:
            if isinstance(item, Chunk):
                self._post_chunk(item)
            elif isinstance(item, AfterwordError):
                self._error = self._error if self.is_complete else item
            else:
                if isinstance(item, Finished):
                    self._backlogs.pop(item.index, None)
                    self._n_unfinished -= 1
                self._queue.append(item)
        self._wake()

    def unread(self) -> Iterator[Event]:
        """Take the events that were posted and not read; waits for nothing."""
        while self._queue:
            yield self._next()

    def __aiter__(self) -> AsyncIterator[Event]:
        return self

    async def __anext__(self) -> Event:
        while not self._queue:
            if self._error is not None:
                raise self._error
            if self._n_unfinished == 0:
                raise StopAsyncIteration
            await self._wait()
        return self._next()

    def _next(self) -> Event:
        entry = self._queue.popleft()
        if not isinstance(entry, _Backlog):
            return entry
        if self._backlogs.get(entry.index) is entry:
            del self._backlogs[entry.index]
        return entry.joined()

    def _post_chunk(self, chunk: Chunk) -> None:
        if chunk.tokens:
            self._backlogs.pop(chunk.index, None)
            self._queue.append(chunk)
            return
        backlog = self._backlogs.get(chunk.index)
        if backlog is None:
            backlog = self._backlogs[chunk.index] = _Backlog(chunk)
            self._queue.append(backlog)
        else:
            backlog.add(chunk)

    def _wake(self) -> None:
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(None)

    async def _wait(self) -> None:
        assert self._reader is None, "a mailbox has one reader"
        self._reader = self.loop.create_future()
        try:
            await self._reader
        finally:
            self._reader = None


class _Backlog:
    """Chunks of one candidate, none with tokens, that are read as one. They are joined once, in linear time."""

    __slots__ = ("_last", "_texts", "index")

    def __init__(self, first: Chunk) -> None:
        self.index = first.index
        self._texts = [first.text]
        self._last = first

    def add(self, chunk: Chunk) -> None:
        """Append a chunk of this candidate."""
        self._texts.append(chunk.text)
        self._last = chunk

    def joined(self) -> Chunk:
        """All of it as one chunk."""
        if len(self._texts) == 1:
            return self._last
        return Chunk(self.index, "".join(self._texts), (), self._last.n_tokens)


EventOrError = Event | AfterwordError
"""An event, or the error that ends a prompt."""

Message = tuple[Mailbox, EventOrError]
"""Where to post, and what."""


def deliver(messages: Iterable[Message]) -> None:
    """Post everything in its order, waking each loop once. Any thread; a closed loop is ignored."""
    batches: dict[AbstractEventLoop, dict[Mailbox, list[EventOrError]]] = {}
    for mailbox, item in messages:
        batches.setdefault(mailbox.loop, {}).setdefault(mailbox, []).append(item)
    for loop, batch in batches.items():
        call_on(loop, _post_all, batch)


def call_on(loop: AbstractEventLoop, action: Callable[..., None], *arguments: object) -> None:
    """Call `action` on a loop. Any thread; a closed loop is ignored."""
    try:
        loop.call_soon_threadsafe(action, *arguments)
    except RuntimeError:
        # The loop may close at any moment before the call. Its readers have ended with it, so nothing is lost.
        if not loop.is_closed():
            raise


def _post_all(batch: dict[Mailbox, list[EventOrError]]) -> None:
    for mailbox, items in batch.items():
        mailbox.post(items)


class MailboxGeneration(Generation):
    """A `Generation` that reads a mailbox, and calls its engine back if its context is left early."""

    def __init__(self, mailbox: Mailbox, on_close: Callable[[], None], on_end: Callable[[int], None]) -> None:
        """Both are called on the event loop, and neither once all was posted.

        `on_close`: the context was left, at most once. `on_end`: `Generation.end` was called with that candidate.
        """
        self._mailbox = mailbox
        self._on_end = on_end
        self._on_close: Callable[[], None] | None = on_close

    @override
    async def __aenter__(self) -> Self:
        return self

    @override
    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        on_close, self._on_close = self._on_close, None
        if on_close is not None and not self._mailbox.is_complete:
            on_close()

    @override
    def __aiter__(self) -> AsyncIterator[Event]:
        return self._mailbox

    @override
    def end(self, index: int) -> None:
        if not self._mailbox.is_complete:
            self._on_end(index)

    @override
    def unread(self) -> Iterator[Event]:
        """What the mailbox holds, see `Generation.unread`."""
        return self._mailbox.unread()
