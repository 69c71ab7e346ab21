"""An engine that runs as replicas elsewhere in the cluster, as the rest of the server sees it. Knows no Ray."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from dataclasses import fields, replace
from types import TracebackType
from typing import Protocol, Self
from weakref import WeakSet

import structlog
from typing_extensions import override

from afterword.cluster.candidate_ends import CandidateEnds
from afterword.cluster.messages import Accepted, Facts, Message, Report
from afterword.engine.base import Engine, EngineStats, Generation
from afterword.engine.engine_refusal import Refusal
from afterword.engine.events import Event, Started
from afterword.engine.mailbox import Mailbox
from afterword.engine.request import GenerationRequest
from afterword.engine.tracker import post_failures
from afterword.errors import AfterwordError, EngineClosed, EngineFailed
from afterword.tokens import Tokenizer

ATTEMPTS = 3
"""Replicas that a request is tried on before it fails; only while no event of its answer has come."""

SUMMED = tuple(field.name for field in fields(EngineStats) if field.type is int or field.type == "int")
"""The figures of `EngineStats` that are counts."""

REPORT_SECONDS = 2.0
"""Time between two reports of all replicas, if they are few."""

SECONDS_A_REPORT = 0.02
"""The same for each replica, if they are many."""


class ReplicaLost(EngineFailed):
    """A replica has died."""


class ReplicaAnswer(Protocol):
    """A replica's answer to a request."""

    async def __anext__(self) -> Message:
        """The next message. Raises `ReplicaLost`, and `Overloaded` if no replica takes the request."""
        ...

    def cancel(self) -> None:
        """Make the replica stop."""
        ...


class Replicas(Protocol):
    """All replicas of one model."""

    def ask(self, request: GenerationRequest) -> ReplicaAnswer:
        """Send the request to one of them."""
        ...

    async def reports(self) -> tuple[Report, ...]:
        """The figures of each. Raises `ReplicaLost`."""
        ...


class ClusterEngine(Engine):
    """An engine over replicas."""

    # An attribute here: the protocol's property only asks for something to read.
    fingerprint: str = ""

    def __init__(self, replicas: Replicas, facts: Facts, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer
        self.capabilities = facts.capabilities
        self.fingerprint = facts.fingerprint
        self.replicas = replicas
        self._reports: tuple[Report, ...] = ()
        self._watch: asyncio.Task[None] | None = None
        # Weak: one that its reader has dropped must not stay in memory.
        self.running: WeakSet[RemoteGeneration] = WeakSet()
        self._closed = False

    @override
    def generate(self, request: GenerationRequest) -> Generation:
        self.check_open()
        # The call is sent at once; entering the generation waits for the reply.
        return RemoteGeneration(self, request)

    @override
    def check_capacity(self, n_sequences: int) -> None:
        """Refuses nothing: each replica checks its own capacity."""

    @override
    def stats(self) -> EngineStats:
        """The sum over all replicas, a few seconds old."""
        return total([report.stats for report in self._reports])

    def reports(self) -> tuple[Report, ...]:
        """The latest figures of each replica."""
        return self._reports

    def start_watching(self) -> None:
        """Begin to collect figures; on the event loop."""
        self._watch = asyncio.create_task(self._keep_reports())

    @override
    async def aclose(self) -> None:
        """Closes this process's side; the replicas belong to the cluster and stay."""
        self._closed = True
        for generation in list(self.running):
            generation.close()
        if self._watch is not None:
            self._watch.cancel()
            await asyncio.gather(self._watch, return_exceptions=True)

    def check_open(self) -> None:
        """Raise `EngineClosed` once it is."""
        if self._closed:
            raise EngineClosed()

    async def _keep_reports(self) -> None:
        while True:
            try:
                self._reports = await self.replicas.reports()
            except ReplicaLost as error:
                structlog.get_logger("afterword.cluster").warning(
                    "no figures from the replicas", error=str(error.__cause__)
                )
            await asyncio.sleep(pause(len(self._reports)))


class RemoteGeneration(Generation):
    """A generation on a replica; on another one if that dies before its first event."""

    def __init__(self, engine: ClusterEngine, request: GenerationRequest) -> None:
        self._engine = engine
        self._request = request
        self._answer = engine.replicas.ask(request)
        self._attempts = 1
        self._ends = CandidateEnds(request.n_candidates)
        self._mailbox = Mailbox(asyncio.get_running_loop(), request.n_candidates)
        self._reading: asyncio.Task[None] | None = None

    @override
    async def __aenter__(self) -> Self:
        self._engine.running.add(self)
        try:
            await self._accepted()
        except AfterwordError as error:
            self._mailbox.post([error])
            raise
        if self._mailbox.is_complete:
            # Closed while it waited.
            self._answer.cancel()
            return self
        self._reading = asyncio.create_task(self._read())
        self._reading.add_done_callback(self._over)
        return self

    @override
    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._mailbox.is_complete:
            self._stop()

    @override
    def __aiter__(self) -> AsyncIterator[Event]:
        return self._mailbox

    @override
    def end(self, index: int) -> None:
        """As in `Generation`. A call can only be cancelled as a whole, so the replica goes on until all have ended."""
        if not self._mailbox.is_complete:
            self._mailbox.post(self._ends.end(index))
            if self._mailbox.is_complete:
                self._stop()

    @override
    def unread(self) -> Iterator[Event]:
        return self._mailbox.unread()

    def close(self) -> None:
        """The engine closes."""
        if not self._mailbox.is_complete:
            self._mailbox.post([EngineClosed()])
            self._stop()

    def _stop(self) -> None:
        if self._reading is None:
            self._answer.cancel()
        else:
            self._reading.cancel()

    def _over(self, reading: asyncio.Task[None]) -> None:
        """Cancel the call after its reader, which would take a cancelled call for a lost replica."""
        if reading.cancelled():
            self._answer.cancel()

    async def _read(self) -> None:
        with post_failures(self._mailbox.post):
            async for batch in self._batches():
                self._mailbox.post([event for event in batch if self._ends.passes(event)])
            self._mailbox.post([EngineFailed("The replica stopped before the completion was done.")])

    async def _batches(self) -> AsyncIterator[tuple[Event, ...]]:
        """The replica's batches of events; those of another replica if it dies before the first."""
        no_events = True
        while True:
            try:
                message = await anext(self._answer)
            except StopAsyncIteration:
                return
            except ReplicaLost as error:
                if not no_events:
                    raise
                await self._again(error)
                continue
            except Exception:
                # The replica is alive and would go on without a reader.
                self._answer.cancel()
                raise
            if isinstance(message, Refusal):
                raise message.error()
            assert not isinstance(message, Accepted), "a request is accepted once"
            no_events = no_events and all(isinstance(event, Started) for event in message)
            yield message

    async def _again(self, error: ReplicaLost) -> None:
        """Send the request to another replica. Raises `error` after `ATTEMPTS`."""
        if self._attempts >= ATTEMPTS:
            raise error
        self._attempts += 1
        self._answer = self._engine.replicas.ask(self._request)
        await self._accepted()

    async def _accepted(self) -> None:
        """Return once a replica has queued the request. Raises its refusal instead.

        `ReplicaLost` if none answers.
        """
        try:
            first = await anext(self._answer)
        except ReplicaLost as error:
            await self._again(error)
            return
        if isinstance(first, Refusal):
            raise first.error()
        assert isinstance(first, Accepted), "the first message says whether the request was queued"
        self._engine.fingerprint = first.fingerprint


def pause(n_replicas: int) -> float:
    """Seconds until that many replicas are asked for reports again: some tens of calls a second for each asker."""
    return max(REPORT_SECONDS, n_replicas * SECONDS_A_REPORT)


def total(stats: list[EngineStats]) -> EngineStats:
    """Figures of all replicas together: sums, and the longest wait. Without any, the engine is loading."""
    if not stats:
        return EngineStats(state="loading")
    sums = {name: sum(getattr(one, name) for one in stats) for name in SUMMED}
    states = [one.state for one in stats]
    return replace(
        stats[0],
        state="ready" if "ready" in states else states[0],
        queue_seconds=max(one.queue_seconds for one in stats),
        **sums,
    )
