"""The vLLM engine: the object that the server's event loop calls, over a core that runs on a loop of its own.

Two loops, because vLLM is bound to the one it was started on while requests may come from any. Requests are passed
with `call_soon_threadsafe`; events come back in one call for each turn of the core's loop. Knows neither vLLM nor HTTP.
"""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import replace

from typing_extensions import override

from afterword.engine.base import Capabilities, Engine, EngineStats, Generation
from afterword.engine.capacity import Capacity
from afterword.engine.mailbox import EventOrError, Mailbox, MailboxGeneration, Message, call_on, deliver
from afterword.engine.request import GenerationRequest
from afterword.engine.tasks import Tasks
from afterword.engine.tracker import Counters, RequestTracker
from afterword.engine.vllm.core import Core
from afterword.engine.vllm.plan import Limits, plan_of
from afterword.engine.vllm.vllm_job import VllmJob
from afterword.errors import EngineClosed, EngineFailed
from afterword.tokens import Tokenizer


class VllmEngine(Engine):
    """An engine over any `Core`: `vllm_loading.load_vllm_engine` makes one from a model, the tests from a fake core."""

    # An attribute here: the protocol's property only asks for something to read.
    fingerprint: str = ""

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
        self._tracker = RequestTracker(Capacity(capabilities.n_slots, max_waiting), Counters())
        self._messages: list[Message] = []
        """Posted in this turn of the core's loop and not delivered yet; touched on that loop alone, like the tasks."""
        self._tasks: Tasks[VllmJob] = Tasks(
            self._tracker,
            run=lambda job: job.run(self._core),
            post=self._post,
            on_end=lambda job: self._tracker.remove(job.n_unfinished),
        )
        core.on_end = self._fail

    @override
    def generate(self, request: GenerationRequest) -> Generation:
        """As in `Engine`. Raises `InvalidRequest` for what vLLM cannot do."""
        plans = [plan_of(request, index, self._limits) for index in range(request.n_candidates)]
        self._check_core()
        mailbox = self._tracker.add(request.n_candidates)
        job = VllmJob(request, plans, self.tokenizer, mailbox, self._tracker, self._post)
        self._call(self._tasks.start, job)
        return MailboxGeneration(
            mailbox, lambda: self._call(self._tasks.cancel, job), lambda index: self._call(job.end, index)
        )

    @override
    def check_capacity(self, n_sequences: int) -> None:
        self._tracker.capacity.check(n_sequences)

    @override
    def stats(self) -> EngineStats:
        self._check_core()
        # vLLM admits sequences in order of arrival, so those beyond its slots are the waiting ones.
        return replace(self._tracker.stats(self.capabilities.n_slots), steps=self._core.n_steps)

    @override
    async def aclose(self) -> None:
        """Cancel everything and free the model. Calling it again changes nothing."""
        self._tracker.end("closed", EngineClosed())
        if self._core.loop.is_running():
            await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(self._tasks.aclose(), self._core.loop))
        await asyncio.to_thread(self._core.close)

    def _check_core(self) -> None:
        """Fail all requests if vLLM has failed."""
        if self._core.is_dead:
            self._fail()

    def _fail(self) -> None:
        self._tracker.end("failed", EngineFailed("The engine failed; the server's log has the cause."))

    def _call(self, action: Callable[..., None], *arguments: object) -> None:
        call_on(self._core.loop, action, *arguments)

    # Everything below runs on the core's loop.

    def _post(self, mailbox: Mailbox, items: Iterable[EventOrError]) -> None:
        """Deliver once every task that is ready now has run: one call into each loop that reads."""
        if not self._messages:
            self._core.loop.call_soon(self._send)
        self._messages += [(mailbox, item) for item in items]

    def _send(self) -> None:
        messages, self._messages = self._messages, []
        deliver(messages)
