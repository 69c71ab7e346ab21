"""The embedded engine: a thread that owns a llama.cpp context, and the object that the event loop calls.

Commands are passed in under one condition, events are delivered once a step. Only the thread touches the scheduler,
the context and sequences. Knows no HTTP.
"""

import asyncio
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from typing_extensions import override

from afterword.engine.base import Capabilities, Engine, EngineStats, Generation
from afterword.engine.candidate import new_candidates
from afterword.engine.capacity import Capacity
from afterword.engine.llama.kv import Demand, KVSlots
from afterword.engine.llama.openmp import release_workers
from afterword.engine.llama.scheduler import Scheduler
from afterword.engine.llama.sequence import Group, Sequence
from afterword.engine.mailbox import MailboxGeneration, deliver
from afterword.engine.request import GenerationRequest
from afterword.engine.sampling.random_stream import RandomStream
from afterword.engine.sampling.sampler import Sampler, Workspace
from afterword.engine.tracker import RequestTracker, public_error
from afterword.errors import EngineFailed
from afterword.tokens import Tokenizer

BROKEN = "The engine failed; the server's log has the cause."


@dataclass(frozen=True, slots=True)
class Loaded:
    """A model that can compute. It belongs to the engine's thread once that has started."""

    scheduler: Scheduler
    kv: KVSlots
    free: Callable[[], None]
    """Frees the model's memory; called once, at the end of the thread."""


class LlamaEngine(Engine):
    """An engine over any `Runner`: `loading.load_engine` makes one from a GGUF file, the tests from a fake runner."""

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
        self._workspace = Workspace(tokenizer.n_vocab)
        self._changed = threading.Condition()
        self._commands: list[Callable[[], None]] = []
        self._closing = False
        self._n_taken = 0
        """Sequences that the scheduler was given and that were not removed from the tracker yet."""
        self._n_running = self._n_idle = 0
        """After the latest step, for `stats`."""
        self._scheduler, self._kv, self._free = loaded.scheduler, loaded.kv, loaded.free
        self._thread = threading.Thread(target=self._run, name="afterword-engine", daemon=True)
        self._thread.start()

    @override
    def generate(self, request: GenerationRequest) -> Generation:
        mailbox = self._tracker.add(request.n_candidates)
        group = Group(request, mailbox, time.monotonic())
        self._post(lambda: self._add(group))
        return MailboxGeneration(
            mailbox,
            on_close=lambda: self._post(lambda: self._cancel(group)),
            on_end=lambda index: self._post(lambda: self._end(group.sequences[index])),
        )

    @override
    def check_capacity(self, n_sequences: int) -> None:
        self._tracker.capacity.check(n_sequences)

    @override
    def stats(self) -> EngineStats:
        return self._tracker.stats(self._n_running, self._n_idle)

    @override
    async def aclose(self) -> None:
        """Cancel everything, end the thread and free the model. Calling it again changes nothing."""
        self._tracker.end("closed", EngineFailed("The engine is closed."))
        with self._changed:
            self._closing = True
            self._changed.notify()
        await asyncio.to_thread(self._thread.join)

    def _post(self, command: Callable[[], None]) -> None:
        with self._changed:
            self._commands.append(command)
            self._changed.notify()

    # Everything below runs on the engine's thread.

    def _run(self) -> None:
        try:
            while self._take_commands():
                self._scheduler.now = time.monotonic()
                messages = self._scheduler.step()
                self._note_waits()
                self._publish()
                deliver(messages)
        except BaseException as error:
            self._tracker.end("failed", public_error(error, BROKEN))
        finally:
            # Again, in case the call above failed for lack of memory: without its thread the engine is not `ready`.
            self._tracker.end("failed", EngineFailed(BROKEN))
            self._free()

    def _take_commands(self) -> bool:
        """Run posted commands, waiting for some if there is nothing else to do; False when the engine closes."""
        if self._scheduler.idle:
            # While idle, this thread's OpenMP workers would slow down other engines (openmp.py).
            release_workers()
        with self._changed:
            while not self._commands and self._scheduler.idle and not self._closing:
                self._changed.wait()
            if self._closing:
                return False
            commands, self._commands = self._commands, []
        for command in commands:
            command()
        self._publish()
        return True

    def _add(self, group: Group) -> None:
        self._n_taken += group.request.n_candidates
        try:
            group.sequences = self._sequences_of(group)
        except Exception as error:  # of any kind: it must fail this request alone
            failure = public_error(error, "The engine could not take this request; the server's log has the cause.")
            deliver([(group.mailbox, failure)])
        else:
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
                piece=self.tokenizer.piece,
                prompt=request.prompt,
                end_ids=request.end_ids,
                min_tokens=request.min_tokens,
            )
            # Only one candidate scores the prompt; the others reuse its rows.
            score_top = request.prompt_logprobs if candidate.index == 0 else None
            sequences.append(Sequence(group, candidate, sampler, Demand(prompt, reproducible, score_top)))
        return sequences

    def _cancel(self, group: Group) -> None:
        self._scheduler.counters.cancelled += sum(s.slot is not None for s in group.sequences) + len(group.waiting)
        self._scheduler.cancel(group)

    def _end(self, sequence: Sequence) -> None:
        # A sequence without a slot has finished, or its group was cancelled.
        if sequence.slot is not None and not sequence.candidate.finished:
            events = sequence.candidate.end()
            self._scheduler.end(sequence)
            deliver((sequence.group.mailbox, event) for event in events)

    def _note_waits(self) -> None:
        for sequence in self._scheduler.just_admitted:
            self._tracker.capacity.note_wait(time.monotonic() - sequence.group.queued_at)
        # An idle engine takes no further step: without this its last requests would stay in memory.
        self._scheduler.just_admitted = []

    def _publish(self) -> None:
        """Publish the counts of this step. Ended sequences come first: else `stats` would count them as waiting."""
        n_taken = len(self._scheduler.running) + self._scheduler.n_waiting
        self._tracker.remove(self._n_taken - n_taken)
        self._n_taken = n_taken
        self._n_running, self._n_idle = len(self._scheduler.running), self._kv.n_idle
