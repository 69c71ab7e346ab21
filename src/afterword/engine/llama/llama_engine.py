"""The embedded engine with its thread in this process. Knows no HTTP.

For tests and benchmarks, which need no second process; servers have the thread in one of its own (`engine/worker/`).
"""

import asyncio

from typing_extensions import override

from afterword.engine.base import Capabilities, Engine, EngineStats, Generation
from afterword.engine.capacity import Capacity
from afterword.engine.llama.engine_thread import EngineThread, Loaded, Outlet, Progress
from afterword.engine.llama.sequence import Message
from afterword.engine.mailbox import MailboxGeneration, deliver
from afterword.engine.request import GenerationRequest
from afterword.engine.tracker import RequestTracker, public_error
from afterword.errors import EngineClosed, EngineFailed
from afterword.tokens import Tokenizer

BROKEN = "The engine failed; the server's log has the cause."


class LlamaEngine(Engine, Outlet):
    """An engine over any `Runner`: `llama_loading.py` makes one of a GGUF file, the tests make one of a fake runner."""

    # An attribute here: the protocol's property only asks for something to read.
    fingerprint: str = ""

    def __init__(
        self,
        tokenizer: Tokenizer,
        capabilities: Capabilities,
        fingerprint: str,
        loaded: Loaded,
        *,
        max_waiting: int,
    ) -> None:
        """Start the thread, which waits for requests."""
        self.tokenizer = tokenizer
        self.capabilities = capabilities
        self.fingerprint = fingerprint
        self._tracker = RequestTracker(Capacity(capabilities.n_slots, max_waiting), loaded.scheduler.counters)
        self._progress = Progress(0, 0, 0)
        self._thread = EngineThread(tokenizer, loaded, self, reproducible=capabilities.reproducible)

    @override
    def generate(self, request: GenerationRequest) -> Generation:
        mailbox = self._tracker.add(request.n_candidates, request.n_sequences)
        self._thread.add(request, mailbox)
        return MailboxGeneration(
            mailbox,
            on_close=lambda: self._thread.cancel(mailbox),
            on_end=lambda index: self._thread.end(mailbox, index),
        )

    @override
    def check_capacity(self, n_sequences: int) -> None:
        self._tracker.capacity.check(n_sequences)

    @override
    def stats(self) -> EngineStats:
        return self._tracker.stats(self._progress.n_running, self._progress.n_idle)

    @override
    async def aclose(self) -> None:
        """Cancel everything, end the thread and free the model. Calling it again changes nothing."""
        self._tracker.end("closed", EngineClosed())
        self._thread.close()
        await asyncio.to_thread(self._thread.join)

    # Everything below runs on the engine's thread.

    @override
    def report(self, messages: list[Message], progress: Progress) -> None:
        # Before the readers hear of it: else `stats` would count as waiting what has ended.
        self._tracker.remove(progress.n_ended - self._progress.n_ended)
        self._progress = progress
        for seconds in progress.waited:
            self._tracker.capacity.note_wait(seconds)
        deliver(messages)

    @override
    def end(self, error: BaseException | None) -> None:
        try:
            if error is not None:
                self._tracker.end("failed", public_error(error, BROKEN))
        finally:
            # Again, in case the call above failed for lack of memory: without its thread the engine is not `ready`.
            self._tracker.end("failed", EngineFailed(BROKEN))
