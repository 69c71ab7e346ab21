"""One model at several engines: a request goes to the next one if those before it fail before their first event.

Members are engines of any kind, which refuse at once while they are known to fail. They share a tokenizer.
"""

from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Self

import structlog
from typing_extensions import override

from afterword.engine.base import UNKNOWN_CONTEXT, Capabilities, Engine, EngineStats, Generation
from afterword.engine.events import Event, Started
from afterword.engine.request import GenerationRequest
from afterword.errors import AfterwordError, EngineFailed, Overloaded

_log = structlog.get_logger("afterword.fallback")

_STATES = ("ready", "unloaded", "starting", "loading", "unreachable", "failed", "closed")
"""From the best to the worst. The state of the whole is that of its best member."""


@dataclass(frozen=True, slots=True)
class Member:
    """One engine that has the model."""

    name: str
    engine: Engine


class FallbackEngine(Engine):
    """Tries its members in order; it owns them."""

    def __init__(self, members: Sequence[Member]) -> None:
        """`members`: at least two, in the order in which they are tried."""
        self._members = tuple(members)
        self.tokenizer = members[0].engine.tokenizer
        self.capabilities = _common([member.engine.capabilities for member in members])
        self._answering = members[0]
        """The member that has last begun an answer."""
        self._n_fallbacks = 0

    @property
    @override
    def fingerprint(self) -> str:
        return self._answering.engine.fingerprint

    @override
    def generate(self, request: GenerationRequest) -> Generation:
        generation = _FallbackGeneration(self, request, self._members)
        generation.start()
        return generation

    @override
    def check_capacity(self, n_sequences: int) -> None:
        # One member that can take them is enough.
        refusals: list[Overloaded] = []
        for member in self._members:
            try:
                return member.engine.check_capacity(n_sequences)
            except Overloaded as refusal:
                refusals.append(refusal)
        raise refusals[0]

    @override
    def stats(self) -> EngineStats:
        all_stats = [member.engine.stats() for member in self._members]
        return EngineStats(
            state=min((stats.state for stats in all_stats), key=_STATES.index),
            running=sum(stats.running for stats in all_stats),
            waiting=sum(stats.waiting for stats in all_stats),
            steps=sum(stats.steps for stats in all_stats),
            rows=sum(stats.rows for stats in all_stats),
            step_rows=tuple(map(sum, zip(*(stats.step_rows for stats in all_stats if stats.step_rows), strict=True))),
            prompt_tokens=sum(stats.prompt_tokens for stats in all_stats),
            prefill_tokens=sum(stats.prefill_tokens for stats in all_stats),
            cached_tokens=sum(stats.cached_tokens for stats in all_stats),
            completion_tokens=sum(stats.completion_tokens for stats in all_stats),
            slots_free=sum(stats.slots_free for stats in all_stats),
            slots_idle=sum(stats.slots_idle for stats in all_stats),
            draft_tokens=sum(stats.draft_tokens for stats in all_stats),
            accepted_draft_tokens=sum(stats.accepted_draft_tokens for stats in all_stats),
            cancelled=sum(stats.cancelled for stats in all_stats),
            queue_seconds=max(stats.queue_seconds for stats in all_stats),
            upstreams=tuple(upstream for stats in all_stats for upstream in stats.upstreams),
            fallbacks=self._n_fallbacks,
            restarts=sum(stats.restarts for stats in all_stats),
            problem=next((stats.problem for stats in all_stats if stats.problem is not None), None),
        )

    @override
    def start(self) -> None:
        for member in self._members:
            member.engine.start()

    @override
    async def aclose(self) -> None:
        for member in self._members:
            await member.engine.aclose()

    def note_answer(self, member: Member) -> None:
        """`member` has begun an answer."""
        self._answering = member

    def note_fallback(self, member: Member, error: AfterwordError) -> None:
        """`member` has failed with `error`; the next one is tried."""
        self._n_fallbacks += 1
        _log.warning("trying the next vendor", vendor=member.name, detail=getattr(error, "detail", str(error)))


class _FallbackGeneration(Generation):
    """A generation by the first member of which anything comes."""

    def __init__(self, engine: FallbackEngine, request: GenerationRequest, members: Sequence[Member]) -> None:
        self._engine = engine
        self._request = request
        self._left = list(members)
        """Members that were not tried yet."""
        self._member: Member
        self._generation: Generation
        self._events: AsyncIterator[Event]
        self._begun = False

    def start(self) -> None:
        """Submit to the next member that accepts it. Raises the last member's error if none does."""
        while True:
            self._member = self._left.pop(0)
            try:
                self._generation = self._member.engine.generate(self._request)
                return
            except (EngineFailed, Overloaded) as error:
                if not self._left:
                    raise
                self._engine.note_fallback(self._member, error)

    @override
    async def __aenter__(self) -> Self:
        await self._begin()
        return self

    @override
    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._generation.__aexit__(kind, error, trace)

    @override
    def __aiter__(self) -> AsyncIterator[Event]:
        return self

    async def __anext__(self) -> Event:
        while True:
            try:
                event = await anext(self._events)
            except (EngineFailed, Overloaded) as error:
                if self._begun or not self._left:
                    raise
                await self._try_next(error)
                await self._begin()
                continue
            if not self._begun and not isinstance(event, Started):
                self._begun = True
                self._engine.note_answer(self._member)
            return event

    @override
    def end(self, index: int) -> None:
        self._generation.end(index)

    @override
    def unread(self) -> Iterator[Event]:
        return self._generation.unread()

    async def _begin(self) -> None:
        """Enter the generation. A remote member refuses here, not in `generate`."""
        while True:
            try:
                await self._generation.__aenter__()
            except (EngineFailed, Overloaded) as error:
                if not self._left:
                    raise
                await self._try_next(error)
            else:
                self._events = aiter(self._generation)
                return

    async def _try_next(self, error: EngineFailed | Overloaded) -> None:
        """Submit to the next member."""
        self._engine.note_fallback(self._member, error)
        await self._generation.__aexit__(type(error), error, error.__traceback__)
        self.start()


def _common(members: Sequence[Capabilities]) -> Capabilities:
    """What all members support."""
    contexts = [can.context for can in members if can.context != UNKNOWN_CONTEXT]
    return Capabilities(
        context=min(contexts, default=UNKNOWN_CONTEXT),
        max_logprobs=min(can.max_logprobs for can in members),
        # Members' numbers differ, and which of them will answer cannot be known.
        reproducible=False,
        prefix_cache=all(can.prefix_cache for can in members),
        n_slots=sum(can.n_slots for can in members),
        exact_tokens=all(can.exact_tokens for can in members),
        lacks={feature: why for can in reversed(members) for feature, why in can.lacks.items()},
    )
