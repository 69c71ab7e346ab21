"""Applies the content filter to engine events: holds each candidate's text until the filter releases it.

Takes engine events and yields engine events, so that streams, echo, best_of and log-probabilities need no rules for
filtered text. Knows filters by their protocol only, and no HTTP.
"""

from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from dataclasses import dataclass, replace
from typing import assert_never

from afterword.completions.completion import Completion
from afterword.completions.filter.verdict import ContentFilter, Context, Flag, Hold, Verdict, Watch
from afterword.completions.run import CompletionEvents
from afterword.engine.events import Chunk, Counted, Event, Finished, PromptDone, SampledToken, Started
from afterword.errors import FilterFailed

CONTENT_FILTER = "content_filter"


@dataclass(frozen=True, slots=True)
class Hit:
    """A candidate whose text was flagged."""

    context: Context
    rule: str
    """As in `Flag`."""


class Screened:
    """The events of a request as the answer may show them. One reader.

    A flagged candidate is ended on its engine; its last event says `content_filter` and counts all that was sampled.
    Raises `FilterFailed` if the filter raises anything, which ends the request: unfiltered text must not be sent.
    """

    def __init__(
        self,
        running: CompletionEvents,
        completion: Completion,
        content_filter: ContentFilter,
        request_id: str,
        on_hit: Callable[[Hit], None],
    ) -> None:
        """`on_hit` is called once for each flagged candidate, when it is flagged."""
        self._running = running
        self._completion = completion
        self._filter = content_filter
        self._request_id = request_id
        self._on_hit = on_hit
        self._screens: dict[tuple[int, int], _Screen] = {}
        self._ready: deque[tuple[int, Event]] = deque()

    def __aiter__(self) -> AsyncIterator[tuple[int, Event]]:
        return self

    async def __anext__(self) -> tuple[int, Event]:
        while not self._ready:
            prompt_index, event = await anext(self._running)
            self._ready.extend([(prompt_index, shown) for shown in await self._pass(prompt_index, event)])
        return self._ready.popleft()

    async def _pass(self, prompt_index: int, event: Event) -> list[Event]:
        match event:
            case Started() | PromptDone() | Counted():
                return [event]
            case Chunk():
                return await self._chunk(prompt_index, event)
            case Finished():
                return await self._finished(prompt_index, event)
            case _:
                assert_never(event)

    async def _chunk(self, prompt_index: int, chunk: Chunk) -> list[Event]:
        screen = self._screens.get((prompt_index, chunk.index))
        if screen is None:
            screen = self._screens[prompt_index, chunk.index] = self._new_screen(prompt_index, chunk.index)
        if screen.flagged_by is not None:
            return screen.drop(chunk)
        shown = await screen.take(chunk)
        if screen.flagged_by is not None:
            self._running.end(prompt_index, chunk.index)
            self._on_hit(Hit(screen.context, screen.flagged_by))
        return shown

    async def _finished(self, prompt_index: int, finished: Finished) -> list[Event]:
        screen = self._screens.pop((prompt_index, finished.index), None)
        if screen is None:
            return [finished]
        shown: list[Event] = []
        if screen.flagged_by is None:
            shown = await screen.finish(finished.n_tokens)
            if screen.flagged_by is None:
                return [*shown, finished]
            self._on_hit(Hit(screen.context, screen.flagged_by))
        return [*shown, replace(finished, reason=CONTENT_FILTER)]

    def _new_screen(self, prompt_index: int, index: int) -> "_Screen":
        completion = self._completion
        context = Context(
            self._request_id,
            completion.user,
            completion.model,
            completion.prompts[prompt_index].text,
            prompt_index,
            index,
        )
        return _Screen(context, self._filter.watch(context), completion.generations[prompt_index].text_offset)


class _Screen:
    """One candidate's chunks, held until the filter releases their text."""

    __slots__ = ("_end", "_held", "_n_read", "_n_sent", "_offset", "_undecided", "_watch", "context", "flagged_by")

    def __init__(self, context: Context, watch: Watch, offset: int) -> None:
        """`offset`: where the candidate's text starts, counted like the offsets of its tokens."""
        self.context = context
        self.flagged_by: str | None = None
        """The rule that has flagged the text; no more text is sent."""
        self._watch = watch
        self._offset = offset
        self._held: deque[Chunk] = deque()
        self._n_read = 0
        self._n_sent = 0
        self._end = 0
        """Where the text ends, once it is flagged."""
        self._undecided: SampledToken | None = None
        """Once flagged: a token that starts before the end and may reach beyond it."""

    async def take(self, chunk: Chunk) -> list[Event]:
        """The events that may be shown after this chunk."""
        self._held.append(chunk)
        if chunk.text == "":
            return self._counted(self._release(self._n_sent), chunk.n_tokens)
        self._n_read += len(chunk.text)
        return self._counted(self._apply(await _judge(self._watch.push(chunk.text))), chunk.n_tokens)

    async def finish(self, n_tokens: int) -> list[Event]:
        """The events left to show at the end of the candidate."""
        match await _judge(self._watch.flush()):
            case Flag() as flag:
                shown = self._apply(flag)
            case Hold() | None:
                shown = list(self._held)
        return [replace(chunk, n_tokens=n_tokens) for chunk in shown]

    def drop(self, chunk: Chunk) -> list[Event]:
        """The events for a chunk after the end: one of its tokens may still belong before it, and all are counted."""
        return self._counted(self._list(chunk.tokens), chunk.n_tokens)

    def _counted(self, shown: list[Chunk], n_tokens: int) -> list[Event]:
        """The same chunks with the current count. If there are none, an empty one carries the count."""
        if not shown:
            return [Chunk(self.context.candidate, "", (), n_tokens)]
        return [replace(chunk, n_tokens=n_tokens) for chunk in shown]

    def _apply(self, verdict: Verdict) -> list[Chunk]:
        match verdict:
            case None:
                return self._release(self._n_read)
            case Hold(start):
                return self._release(min(start, self._n_read))
            case Flag(start, rule):
                self.flagged_by = rule
                self._end = min(max(start, self._n_sent), self._n_read)
                shown = self._release(self._end)
                rest = [token for chunk in self._held for token in chunk.tokens]
                self._held.clear()
                return [*shown, *self._list(rest)]
            case _:
                assert_never(verdict)

    def _release(self, end: int) -> list[Chunk]:
        """Everything held up to offset `end`. A chunk across it is cut in two; its tokens stay with the second part.

        A token that starts at `end` stays held: it may be part of the character after it.
        """
        shown: list[Chunk] = []
        held = self._held
        while held and self._n_sent + len(held[0].text) <= end:
            if any(token.offset - self._offset >= end for token in held[0].tokens):
                break
            chunk = held.popleft()
            shown.append(chunk)
            self._n_sent += len(chunk.text)
        n_more = end - self._n_sent
        if held and n_more > 0:
            chunk = held[0]
            shown.append(replace(chunk, text=chunk.text[:n_more], tokens=()))
            held[0] = replace(chunk, text=chunk.text[n_more:])
            self._n_sent = end
        return shown

    def _list(self, tokens: Iterable[SampledToken]) -> list[Chunk]:
        """Of tokens after the last released text, those that end before the cut, in chunks without text.

        Where a token ends is known when the next one starts. One that reaches beyond the cut would spell what was
        flagged, so it is not listed.
        """
        shown: list[Chunk] = []
        for token in tokens:
            start = token.offset - self._offset
            if self._undecided is not None and start <= self._end:
                shown.append(Chunk(self.context.candidate, "", (self._undecided,), 0))
            self._undecided = token if start < self._end else None
        return shown


async def _judge(verdict: Awaitable[Verdict]) -> Verdict:
    try:
        return await verdict
    except Exception as error:
        raise FilterFailed("The content filter could not judge the completion.") from error
