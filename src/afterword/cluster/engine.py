"""An engine that runs as replicas elsewhere in the cluster, as the rest of the server sees it."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextvars import Context
from dataclasses import fields, replace
from types import TracebackType
from typing import Any, Self

import structlog
from ray.exceptions import RayError
from ray.serve.exceptions import BackPressureError, RayServeException
from ray.serve.handle import DeploymentHandle

from afterword.cluster.ending import CandidateEnds
from afterword.cluster.messages import Accepted, Facts, Message, Refusal, Report
from afterword.engine.base import EngineStats, Generation
from afterword.engine.events import Event
from afterword.engine.request import GenerationRequest
from afterword.errors import EngineFailed, Overloaded
from afterword.tokens import Tokenizer

ATTEMPTS = 3
"""Replicas that a request is tried on before it fails: only while nothing of its answer has been seen."""

SUMMED = tuple(field.name for field in fields(EngineStats) if field.type is int or field.type == "int")
"""The figures of `EngineStats` that are counts."""

REPORT_SECONDS = 2.0
"""Time between two looks at the replicas' figures, if they are few."""

SECONDS_A_REPORT = 0.02
"""For each replica, if they are many."""


class ClusterEngine:
    """An `Engine` over a deployment of `EngineReplica`s."""

    def __init__(self, handle: DeploymentHandle, facts: Facts, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer
        self.capabilities = facts.capabilities
        self.fingerprint = facts.fingerprint
        self._handle = handle
        self._streaming = handle.options(method_name="generate", stream=True)
        self._reports: tuple[Report, ...] = ()
        self._watch: asyncio.Task[None] | None = None

    def generate(self, request: GenerationRequest) -> Generation:
        """See `Engine.generate`. The call is on its way at once; what the replica says to it comes on entering."""
        return RemoteGeneration(self, request)

    def reserve(self, n_sequences: int) -> None:
        """See `Engine.reserve`. Each replica counts for itself when it is asked, so nothing is refused here."""

    def stats(self) -> EngineStats:
        """See `Engine.stats`: the sum over all replicas, a few seconds old."""
        return total([report.stats for report in self._reports])

    def reports(self) -> tuple[Report, ...]:
        """The latest figures of each replica."""
        return self._reports

    def start_watching(self) -> None:
        """Begin to collect figures; on the event loop."""
        self._watch = asyncio.create_task(self._keep_reports())

    async def aclose(self) -> None:
        """See `Engine.aclose`. The replicas belong to the cluster and stay."""
        if self._watch is not None:
            self._watch.cancel()
            await asyncio.gather(self._watch, return_exceptions=True)

    def call(self, request: GenerationRequest) -> Any:
        """Ask some replica; the answer is an asynchronous iterator of messages that can be cancelled."""
        # In a context of its own: calls made within one HTTP request would share that one's id, by which Serve's
        # routers tell calls apart.
        return Context().run(self._streaming.remote, request)

    async def _keep_reports(self) -> None:
        while True:
            try:
                self._reports = tuple(await self._handle.broadcast("report").results_async())
            except (RayError, RayServeException) as error:
                structlog.get_logger("afterword.cluster").warning("no figures from the replicas", error=str(error))
            await asyncio.sleep(pause(len(self._reports)))


class RemoteGeneration:
    """A `Generation` on a replica that is chosen on entering, and chosen anew if it dies before its first event."""

    def __init__(self, engine: ClusterEngine, request: GenerationRequest) -> None:
        self._engine = engine
        self._request = request
        self._messages = engine.call(request)
        self._ended = False
        self._attempts = 1
        self._ends = CandidateEnds(request.n_candidates)

    async def __aenter__(self) -> Self:
        await self._accepted()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._ended:
            self._messages.cancel()

    def __aiter__(self) -> AsyncIterator[Event]:
        return self._events()

    def end(self, index: int) -> None:
        """See `Generation.end`. Other calls do not reach the replica, so it goes on until no candidate is wanted."""
        self._ends.end(index)

    def unread(self) -> Iterator[Event]:
        """None: what waits in Ray is not at hand."""
        return iter(())

    async def _events(self) -> AsyncIterator[Event]:
        async for batch in self._batches():
            for event in batch:
                if self._ends.passes(event):
                    yield event
                for owed in self._ends.owed():
                    yield owed
            if self._ends.none_is_wanted:
                return

    async def _batches(self) -> AsyncIterator[tuple[Event, ...]]:
        """What the replica says; if it dies before it has said anything, what another one says."""
        silent = True
        while True:
            try:
                message: Message = await anext(self._messages)
            except StopAsyncIteration:
                self._ended = True
                return
            except (RayError, RayServeException) as error:
                if not silent:
                    self._ended = True
                    raise _lost(error) from error
                await self._again(error)
                continue
            if isinstance(message, Refusal):
                self._ended = True
                raise message.error()
            assert not isinstance(message, Accepted), "a request is accepted once"
            silent = False
            yield message

    async def _again(self, error: Exception) -> None:
        """Ask another replica. Raises `EngineFailed` if enough of them have been asked."""
        if self._attempts >= ATTEMPTS:
            self._ended = True
            raise _lost(error) from error
        self._attempts += 1
        self._messages = self._engine.call(self._request)
        await self._accepted()

    async def _accepted(self) -> None:
        """Return once some replica has queued the request. Raises what it says instead.

        `EngineFailed` if none answers.
        """
        try:
            first: Message = await anext(self._messages)
        except BackPressureError as error:
            self._ended = True
            raise Overloaded("Every replica of the model has as much as it can do.", retry_after=1) from error
        except (RayError, RayServeException) as error:
            await self._again(error)
            return
        if isinstance(first, Refusal):
            self._ended = True
            raise first.error()
        assert isinstance(first, Accepted), "the first message tells whether the request was queued"
        self._engine.fingerprint = first.fingerprint


def pause(n_replicas: int) -> float:
    """Seconds until that many replicas are asked for figures again: each asker makes some tens of calls a second."""
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


def _lost(error: Exception) -> EngineFailed:
    failure = EngineFailed("The replica that worked on this request is gone.")
    failure.__cause__ = error
    return failure
