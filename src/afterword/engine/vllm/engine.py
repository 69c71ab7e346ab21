"""The vLLM engine: the handle that the server's event loop holds, over a core that runs on a loop of its own.

Two loops, because vLLM's is bound to the one it was made on while requests may come from any. Requests cross with
`call_soon_threadsafe`, events come back in one call for each turn of the core's loop. Knows neither vLLM nor HTTP.
"""

import asyncio
import math
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress

import structlog

from afterword.engine.base import Capabilities, EngineStats, Generation
from afterword.engine.events import Event
from afterword.engine.mailbox import Mailbox, MailboxGeneration, deliver, deliver_failure
from afterword.engine.request import GenerationRequest
from afterword.engine.vllm.core import Core
from afterword.engine.vllm.job import Counts, Job
from afterword.engine.vllm.plan import Limits, plan_of
from afterword.errors import AfterwordError, EngineFailed, Overloaded
from afterword.tokens import Tokenizer

log = structlog.get_logger("afterword.engine")


class VllmEngine:
    """An `Engine` over any `Core`: `loading.load_engine` makes one of a model, the tests of a fake core."""

    def __init__(
        self,
        core: Core,
        tokenizer: Tokenizer,
        capabilities: Capabilities,
        fingerprint: str,
        limits: Limits,
        *,
        max_waiting: int,
    ) -> None:
        self.tokenizer = tokenizer
        self.capabilities = capabilities
        self.fingerprint = fingerprint
        self._core = core
        self._limits = limits
        self._max_waiting = max_waiting
        self._lock = threading.Lock()
        self._n_active = 0
        """Sequences taken and not yet ended; under the lock."""
        self._closed = False
        self._counts = Counts()
        self._jobs: dict[Mailbox, tuple[asyncio.AbstractEventLoop, asyncio.Task[None]]] = {}
        """Prompts in progress and their readers' loops; on the core's loop alone."""
        self._outbox = _Outbox(core.loop)

    def generate(self, request: GenerationRequest) -> Generation:
        """See `Engine.generate`. Raises `InvalidRequest` for what vLLM cannot do."""
        plans = [plan_of(request, index, self._limits) for index in range(request.n_candidates)]
        loop = asyncio.get_running_loop()
        mailbox = Mailbox(loop, request.n_candidates)
        job = Job(
            request,
            plans,
            self.tokenizer,
            post=lambda events: self._outbox.add(loop, mailbox, events),
            release=self._release,
        )
        with self._lock:
            self._check_room(request.n_candidates)
            # With the lock held: after `aclose` has it, nothing more may be posted.
            self._n_active += request.n_candidates
            self._core.loop.call_soon_threadsafe(self._start, job, loop, mailbox)
        return MailboxGeneration(
            mailbox,
            lambda: self._post(lambda: self._cancel(job, mailbox)),
            lambda index: self._post(lambda: job.end(index)),
        )

    def reserve(self, n_sequences: int) -> None:
        """See `Engine.reserve`."""
        with self._lock:
            self._check_room(n_sequences)

    def stats(self) -> EngineStats:
        """See `Engine.stats`. vLLM admits sequences in the order they came, so those beyond its streams wait."""
        counts, n_active = self._counts, self._n_active
        running = min(n_active, self.capabilities.n_streams)
        return EngineStats(
            state=self._state(),
            running=running,
            waiting=n_active - running,
            steps=self._core.n_steps,
            prompt_tokens=counts.prompt_tokens,
            prefill_tokens=counts.prompt_tokens - counts.cached_tokens,
            cached_tokens=counts.cached_tokens,
            completion_tokens=counts.completion_tokens,
            streams_free=self.capabilities.n_streams - running,
            cancelled=counts.cancelled,
            queue_seconds=counts.queue_seconds,
        )

    async def aclose(self) -> None:
        """Cancel everything and free the model. Calling it again changes nothing."""
        with self._lock:
            was_closed, self._closed = self._closed, True
        if not was_closed:
            await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(self._end_all(), self._core.loop))
            await asyncio.to_thread(self._core.close)

    def _state(self) -> str:
        if self._closed:
            return "closed"
        return "failed" if self._core.is_dead else "ready"

    def _check_room(self, n_sequences: int) -> None:
        """Raise if that many more cannot be taken. Called with the lock held."""
        if self._closed:
            raise EngineFailed("The engine is closed.")
        if self._core.is_dead:
            raise EngineFailed("The engine failed; the server's log has the cause.")
        room = self.capabilities.n_streams + self._max_waiting - self._n_active
        if n_sequences > room:
            raise Overloaded(
                f"{self._n_active} sequences are running or waiting and {n_sequences} more would exceed the limit of "
                f"{self.capabilities.n_streams} running and {self._max_waiting} waiting. Try again later.",
                retry_after=max(1, math.ceil(self._counts.queue_seconds)),
            )

    def _post(self, command: Callable[[], None]) -> None:
        with self._lock:
            if not self._closed:
                self._core.loop.call_soon_threadsafe(command)

    def _release(self, n_sequences: int) -> None:
        with self._lock:
            self._n_active -= n_sequences

    # Everything below runs on the core's loop.

    def _start(self, job: Job, loop: asyncio.AbstractEventLoop, mailbox: Mailbox) -> None:
        task = self._core.loop.create_task(self._run(job, loop, mailbox))
        self._jobs[mailbox] = (loop, task)
        # Not in the task: one that is cancelled before its first turn never runs at all.
        task.add_done_callback(lambda _: self._forget(job, mailbox))

    def _forget(self, job: Job, mailbox: Mailbox) -> None:
        self._release(job.n_unfinished)
        del self._jobs[mailbox]

    def _cancel(self, job: Job, mailbox: Mailbox) -> None:
        if mailbox in self._jobs:
            self._counts.cancelled += job.n_unfinished
            self._jobs[mailbox][1].cancel()

    async def _run(self, job: Job, loop: asyncio.AbstractEventLoop, mailbox: Mailbox) -> None:
        try:
            await job.run(self._core, self._counts)
        except AfterwordError as error:
            self._fail(loop, mailbox, error)
            _report(error)
        except Exception as error:  # whatever it is, the reader must hear of it and the others go on
            failure = EngineFailed("The engine could not finish this completion; the server's log has the cause.")
            failure.__cause__ = error
            self._fail(loop, mailbox, failure)
            _report(failure)

    async def _end_all(self) -> None:
        tasks = [task for _, task in self._jobs.values()]
        for mailbox, (loop, _) in self._jobs.items():
            self._fail(loop, mailbox, EngineFailed("The engine was closed before the completion was done."))
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _fail(self, loop: asyncio.AbstractEventLoop, mailbox: Mailbox, error: AfterwordError) -> None:
        self._outbox.flush()
        deliver_failure(loop, [mailbox], error)


class _Outbox:
    """Events on their way to their readers' loops, one call for each of those in a turn of the core's loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._batches: dict[asyncio.AbstractEventLoop, dict[Mailbox, list[Event]]] = {}

    def add(self, loop: asyncio.AbstractEventLoop, mailbox: Mailbox, events: Sequence[Event]) -> None:
        """Take events for a mailbox; they leave when every task that is ready now has had its turn."""
        if not self._batches:
            self._loop.call_soon(self.flush)
        self._batches.setdefault(loop, {}).setdefault(mailbox, []).extend(events)

    def flush(self) -> None:
        """Send everything now."""
        batches, self._batches = self._batches, {}
        for loop, batch in batches.items():
            deliver(loop, list(batch.items()))


def _report(error: AfterwordError) -> None:
    """Log what broke; a refusal is the client's to hear. A log that cannot be written must not cost more requests."""
    if isinstance(error, EngineFailed):
        with suppress(Exception):
            log.error("request failed", exc_info=error)
