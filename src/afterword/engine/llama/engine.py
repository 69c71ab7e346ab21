"""The embedded engine: a thread that owns a llama.cpp context, and the handle that the event loop holds.

Commands go in under one condition, events come out once a step. Nothing but the thread touches the scheduler, the
context or a sequence. Knows no HTTP.
"""

import asyncio
import math
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np
import structlog

from afterword.engine.base import Capabilities, EngineStats, Generation, average_wait
from afterword.engine.candidate import new_candidates
from afterword.engine.events import Event
from afterword.engine.llama.commit import Message
from afterword.engine.llama.kv import Demand, KVSlots
from afterword.engine.llama.scheduler import Scheduler
from afterword.engine.llama.sequence import Group, Sequence
from afterword.engine.mailbox import Mailbox, MailboxGeneration, deliver, deliver_failure
from afterword.engine.request import GenerationRequest
from afterword.engine.sampling.random_stream import RandomStream
from afterword.engine.sampling.sampler import Sampler, Workspace
from afterword.errors import AfterwordError, EngineFailed, Overloaded
from afterword.tokens import Tokenizer

log = structlog.get_logger("afterword.engine")


@dataclass(frozen=True, slots=True, eq=False)
class LoopReader:
    """A mailbox and the loop it lives on."""

    loop: asyncio.AbstractEventLoop
    mailbox: Mailbox


class LlamaEngine:
    """An `Engine` over any `Runner`: `loading.load_engine` makes one of a GGUF file, the tests of a fake runner."""

    def __init__(
        self,
        tokenizer: Tokenizer,
        capabilities: Capabilities,
        fingerprint: str,
        make_scheduler: Callable[[], tuple[Scheduler, KVSlots, Callable[[], None]]],
        *,
        max_waiting: int,
    ) -> None:
        """`make_scheduler` returns what the engine's thread then owns, and how to free it."""
        self.tokenizer = tokenizer
        self.capabilities = capabilities
        self.fingerprint = fingerprint
        self._max_waiting = max_waiting
        self._workspace = Workspace(tokenizer.n_vocab)
        self._changed = threading.Condition()
        self._commands: list[Callable[[], None]] = []
        self._n_posted = 0
        """Sequences in commands that the latest snapshot does not know of yet."""
        self._groups: dict[Group, None] = {}
        self._failure: EngineFailed | None = None
        self._closing = False
        self._cancelled = 0
        self._queue_seconds = 0.0
        self._stats = EngineStats(state="ready", streams_free=capabilities.n_streams)
        self._scheduler, self._kv, self._free = make_scheduler()
        self._thread = threading.Thread(target=self._run, name="afterword-engine", daemon=True)
        self._thread.start()

    def generate(self, request: GenerationRequest) -> Generation:
        """See `Engine.generate`."""
        loop = asyncio.get_running_loop()
        mailbox = Mailbox(loop, request.n_candidates)
        group = Group(request, LoopReader(loop, mailbox), time.monotonic())
        with self._changed:
            # Under the condition: a thread that has failed takes no more commands.
            if self._failure is not None:
                # A new error: one that is raised again and again would collect every caller's frames.
                raise EngineFailed(str(self._failure)) from self._failure.__cause__
            self._check_room(request.n_candidates)
            self._n_posted += request.n_candidates
            self._commands.append(lambda: self._add(group))
            self._changed.notify()
        return MailboxGeneration(
            mailbox,
            on_close=lambda: self._post(lambda: self._cancel(group)),
            on_end=lambda index: self._post(lambda: self._end(group.sequences[index])),
        )

    def reserve(self, n_sequences: int) -> None:
        """See `Engine.reserve`."""
        with self._changed:
            self._check_room(n_sequences)

    def stats(self) -> EngineStats:
        """See `Engine.stats`."""
        with self._changed:
            return replace(self._stats, waiting=self._stats.waiting + self._n_posted)

    async def aclose(self) -> None:
        """Cancel everything, end the thread and free the model. Calling it again changes nothing."""
        with self._changed:
            self._closing = True
            self._failure = self._failure or EngineFailed("The engine is closed.")
            self._changed.notify()
        await asyncio.to_thread(self._thread.join)

    def _check_room(self, n_sequences: int) -> None:
        """Raise `Overloaded` if that many more would have to wait beyond the limit. Called with the condition held."""
        n_ahead = self._n_posted + self._stats.waiting
        n_free = self.capabilities.n_streams - self._stats.running
        if n_ahead + n_sequences - n_free > self._max_waiting:
            raise Overloaded(
                f"{n_ahead} sequences are waiting for a stream and {n_sequences} more would exceed the limit of "
                f"{self._max_waiting}. Try again later.",
                retry_after=max(1, math.ceil(self._queue_seconds)),
            )

    def _post(self, command: Callable[[], None]) -> None:
        with self._changed:
            self._commands.append(command)
            self._changed.notify()

    # Everything below runs on the engine's thread.

    def _run(self) -> None:
        try:
            while self._take_commands():
                messages = self._scheduler.step()
                self._note_waits()
                self._publish_stats("ready")
                self._send(messages)
            self._fail(EngineFailed("The engine is closed."))
            self._publish_stats("closed")
        except Exception as error:
            failure = EngineFailed("The engine failed; the server's log has the cause.")
            failure.__cause__ = error
            self._fail(failure)
            self._publish_stats("failed")
            _report("engine failed", error)
        finally:
            self._free()

    def _take_commands(self) -> bool:
        """Run what was posted, waiting for it if there is nothing else to do; False when the engine closes."""
        if self._scheduler.idle:
            self._scheduler.rest()
        with self._changed:
            while not self._commands and self._scheduler.idle and not self._closing:
                self._changed.wait()
            if self._closing:
                return False
            commands, self._commands = self._commands, []
            n_posted = self._n_posted
        if commands:
            for command in commands:
                command()
            self._publish_stats("ready", n_posted)
        return True

    def _add(self, group: Group) -> None:
        try:
            group.sequences = self._sequences_of(group)
        except Exception as error:  # whatever it is, it concerns this request alone
            failure = EngineFailed("The engine could not take this request; the server's log has the cause.")
            failure.__cause__ = error
            self._send([(group.reader, failure)])
            _report("request failed", error)
            return
        self._groups[group] = None
        self._scheduler.add(group)

    def _sequences_of(self, group: Group) -> list[Sequence]:
        """A group's candidates, ready to be scheduled."""
        request = group.request
        prompt = np.array(request.prompt, dtype=np.int32)
        reproducible = request.reproducible and self.capabilities.reproducible
        sequences: list[Sequence] = []
        for candidate in new_candidates(request, self.tokenizer):
            sampler = Sampler(
                request.sampling,
                self._workspace,
                RandomStream(request.seed, request.prompt_index, candidate.index),
                prompt=request.prompt,
                end_ids=request.end_ids,
                min_tokens=request.min_tokens,
            )
            # Only one candidate scores the prompt; the others find it computed.
            score_top = request.prompt_logprobs if candidate.index == 0 else None
            sequences.append(Sequence(group, candidate, sampler, Demand(prompt, reproducible, score_top)))
        return sequences

    def _cancel(self, group: Group) -> None:
        if group in self._groups:
            del self._groups[group]
            self._cancelled += sum(not sequence.candidate.finished for sequence in group.sequences)
            self._scheduler.cancel(group)

    def _end(self, sequence: Sequence) -> None:
        """See `Generation.end`; a sequence without a slot has finished, or its group is gone."""
        if sequence.slot is not None and not sequence.candidate.finished:
            events = sequence.candidate.end()
            self._scheduler.end(sequence)
            self._send([(sequence.group.reader, event) for event in events])

    def _note_waits(self) -> None:
        for sequence in self._scheduler.just_admitted:
            waited = time.monotonic() - sequence.group.queued_at
            self._queue_seconds = average_wait(self._queue_seconds, waited)
        # An idle engine takes no further step, and must not keep its last requests.
        self._scheduler.just_admitted = []

    def _send(self, messages: list[Message]) -> None:
        """One call into each loop for everything that a step has to say."""
        batches: dict[asyncio.AbstractEventLoop, dict[Mailbox, list[Event]]] = {}
        failed: list[tuple[LoopReader, AfterwordError]] = []
        for reader, message in messages:
            assert isinstance(reader, LoopReader)
            if isinstance(message, AfterwordError):
                failed.append((reader, message))
            else:
                batches.setdefault(reader.loop, {}).setdefault(reader.mailbox, []).append(message)
        for loop, batch in batches.items():
            deliver(loop, list(batch.items()))
        for reader, error in failed:
            deliver_failure(reader.loop, [reader.mailbox], error)
        if messages:
            self._forget_finished()

    def _forget_finished(self) -> None:
        """Drop groups that need nothing more."""
        held = {s.group for s in self._scheduler.running} | {s.group for s in self._scheduler.waiting}
        self._groups = {group: None for group in self._groups if group in held}

    def _fail(self, failure: EngineFailed) -> None:
        """Tell everybody who waits, and everybody who comes."""
        with self._changed:
            self._failure = failure
            commands, self._commands = self._commands, []
            self._n_posted = 0
        for command in commands:
            command()
        for group in self._groups:
            reader = group.reader
            assert isinstance(reader, LoopReader)
            self._scheduler.cancel(group)
            deliver_failure(reader.loop, [reader.mailbox], failure)
        self._groups.clear()

    def _publish_stats(self, state: str, n_posted: int = 0) -> None:
        """A new snapshot, which knows of `n_posted` sequences more than the last: none is missed or counted twice."""
        scheduler, kv, counters = self._scheduler, self._kv, self._scheduler.counters
        stats = EngineStats(
            state=state,
            running=len(scheduler.running),
            waiting=len(scheduler.waiting),
            steps=counters.steps,
            prompt_tokens=counters.prompt_tokens,
            prefill_tokens=counters.prefill_tokens,
            cached_tokens=counters.cached_tokens,
            completion_tokens=counters.completion_tokens,
            streams_free=kv.n_free - kv.n_idle,
            streams_idle=kv.n_idle,
            cancelled=self._cancelled,
            queue_seconds=self._queue_seconds,
        )
        with self._changed:
            self._stats, self._n_posted = stats, self._n_posted - n_posted


def _report(what: str, error: Exception) -> None:
    """Log a failure. A log that cannot be written (its file is closed, its disk full) must not cost more requests."""
    with suppress(Exception):
        log.error(what, exc_info=error)
