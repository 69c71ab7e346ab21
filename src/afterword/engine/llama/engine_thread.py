"""The thread that owns a llama.cpp context: it takes commands between steps, and tells its outlet what came of them.

Only this thread touches the scheduler, the context and sequences. Knows no event loop, and not where its outlet is: in
this process (`llama_engine.py`), or in the one that owns the socket (`engine/worker/`).
"""

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, NamedTuple, Protocol

from afterword.engine.candidate import new_candidates
from afterword.engine.events import Chunk, Finished
from afterword.engine.llama.beam_team import search_together
from afterword.engine.llama.guided_pair import guide
from afterword.engine.llama.kv import KVSlots
from afterword.engine.llama.openmp import release_workers
from afterword.engine.llama.scheduler import Scheduler
from afterword.engine.llama.sequence import Group, Message, Sequence, demand_of
from afterword.engine.request import GenerationRequest
from afterword.engine.sampling.logprobs import LogSoftmax
from afterword.engine.sampling.masks import Mask, Masks, masks_of
from afterword.engine.sampling.random_stream import RandomStream
from afterword.engine.sampling.sampler import Sampler, Workspace
from afterword.engine.tracker import public_error
from afterword.errors import AfterwordError
from afterword.tokens import Tokenizer

SECONDS_BETWEEN = 0.05
"""How often chunks are told that nobody reads as they come: who hears of each step has a processor in the next one."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """A model that can compute. It belongs to the engine's thread once that has started."""

    scheduler: Scheduler
    kv: KVSlots
    free: Callable[[], None]
    """Frees the model's memory; called once, at the end of the thread."""


class Progress(NamedTuple):
    """How far a thread is."""

    n_ended: int
    """Sequences that have ended since its start."""
    n_running: int
    """Sequences that hold a slot."""
    n_idle: int
    """Slots without a sequence whose tokens are kept."""
    waited: tuple[float, ...] = ()
    """Seconds that each sequence which has got a slot since the last one had to wait for it."""


class Outlet(Protocol):
    """What an engine's thread tells, and calls from itself."""

    def report(self, messages: list[Message], progress: Progress) -> None:
        """Messages in the order in which they happened; none, where only the progress is another.

        `Started` is told before anything of the prompt is computed, chunks of a request that is not `streamed` every
        `SECONDS_BETWEEN` or with what else there is to tell.
        """
        ...

    def end(self, error: BaseException | None) -> None:
        """The thread ends, because of `error` or because it was closed."""
        ...


class EngineThread:
    """Runs what it is given until it is closed. Methods may be called from any thread and do not wait."""

    def __init__(self, tokenizer: Tokenizer, loaded: Loaded, outlet: Outlet, *, reproducible: bool) -> None:
        """Start the thread. `reproducible`: the model keeps the promise of docs/rules.md#same-bytes."""
        self._tokenizer = tokenizer
        self._reproducible = reproducible
        self._outlet = outlet
        self._workspace = Workspace(tokenizer.n_vocab)
        self._log_softmax = LogSoftmax(tokenizer.n_vocab)
        self._masks = Masks(tokenizer)
        self._changed = threading.Condition()
        self._commands: list[Callable[[], None]] = []
        self._closing = False
        self._groups: dict[Any, Group] = {}
        """Prompts that have not ended, by address."""
        self._n_taken = 0
        """Sequences that the scheduler was given and that were not counted as ended yet."""
        self._n_ended = 0
        self._untold: list[Message] = []
        self._told = Progress(0, 0, 0)
        """What was reported last."""
        self._told_at = 0.0
        self._scheduler, self._kv, self._free = loaded.scheduler, loaded.kv, loaded.free
        self._thread = threading.Thread(target=self._run, name="afterword-engine", daemon=True)
        self._thread.start()

    def add(self, request: GenerationRequest, address: Any) -> None:
        """Queue a prompt, whose events are told with `address`."""
        group = Group(request, address, time.monotonic())
        self._post(lambda: self._add(group))

    def cancel(self, address: Any) -> None:
        """Drop the prompt of that address, if it has not ended."""
        self._post(lambda: self._cancel(address))

    def end(self, address: Any, index: int) -> None:
        """End one candidate, as `Generation.end` does."""
        self._post(lambda: self._end(address, index))

    def close(self) -> None:
        """Have the thread end, whatever it has left to do."""
        with self._changed:
            self._closing = True
            self._changed.notify()

    def join(self) -> None:
        """Wait until the thread has ended."""
        self._thread.join()

    def _post(self, command: Callable[[], None]) -> None:
        with self._changed:
            self._commands.append(command)
            self._changed.notify()

    # Everything below runs on the thread.

    def _run(self) -> None:
        failure: BaseException | None = None
        try:
            while self._take_commands():
                self._scheduler.now = time.monotonic()
                started = self._scheduler.admit()
                if self._scheduler.just_admitted:
                    self._tell(started, self._waits())
                self._tell(self._scheduler.step())
        except BaseException as error:
            failure = error
        finally:
            try:
                # What was computed before it broke counts.
                self._outlet.report(self._untold, self._progress())
                self._outlet.end(failure)
            finally:
                self._masks.close()
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
        if commands:
            self._tell([])
        return True

    def _add(self, group: Group) -> None:
        self._groups[group.address] = group
        masks = masks_of(group.request, self._masks)
        if masks.done():
            self._enter(group, masks)
        else:
            masks.add_done_callback(lambda _: self._post(lambda: self._enter(group, masks)))

    def _enter(self, group: Group, masks: "Future[list[Mask]]") -> None:
        """Give a group to the scheduler, unless it was cancelled while its grammar was opened."""
        self._n_taken += group.request.n_sequences
        if group.address not in self._groups:
            self._tell([])
            return
        try:
            group.sequences = self._sequences_of(group, masks.result())
        except Exception as error:  # of any kind: it must fail this request alone
            failure = public_error(error, "The engine could not take this request; the server's log has the cause.")
            self._tell([(group.address, failure)])
        else:
            self._scheduler.add(group)

    def _sequences_of(self, group: Group, masks: list[Mask]) -> list[Sequence]:
        """A group's candidates, ready to be scheduled."""
        request = group.request
        reproducible = request.reproducible and self._reproducible
        sequences: list[Sequence] = []
        for candidate, mask in zip_longest(new_candidates(request, self._tokenizer), masks):
            sampler = Sampler(
                request.sampling,
                self._workspace,
                RandomStream(request.seed, request.prompt_index, candidate.index),
                piece=self._tokenizer.piece,
                prompt=request.prompt,
                end_ids=request.end_ids,
                min_tokens=request.min_tokens,
                mask=mask,
            )
            # Only one candidate scores the prompt.
            demand = demand_of(request, reproducible=reproducible, scored=candidate.index == 0)
            sequence = Sequence(group, candidate, sampler, demand)
            sequences.append(sequence)
            if request.guidance is not None:
                sequences.append(guide(sequence, self._log_softmax))
        if request.beams is not None:
            search_together(sequences, self._log_softmax)
        return sequences

    def _cancel(self, address: Any) -> None:
        group = self._groups.pop(address, None)
        if group is not None and not group.sequences:
            self._scheduler.counters.cancelled += group.request.n_sequences
        elif group is not None:
            self._scheduler.counters.cancelled += sum(s.slot is not None for s in group.sequences) + len(group.waiting)
            self._scheduler.cancel(group)

    def _end(self, address: Any, index: int) -> None:
        group = self._groups.get(address)
        sequence = None if group is None or not group.sequences else group.of_candidate(index)
        # Before its prompt is done nobody has heard of a candidate.
        if sequence is not None and sequence.group.prompt_done and not sequence.candidate.finished:
            events = sequence.candidate.end()
            self._scheduler.end(sequence)
            self._tell([(address, event) for event in events])

    def _tell(self, messages: list[Message], waited: tuple[float, ...] = ()) -> None:
        at_once = bool(waited)
        for address, what in messages:
            group = self._groups.get(address)
            at_once = at_once or group is None or group.request.streamed or not isinstance(what, Chunk)
            if group is None or not isinstance(what, Finished | AfterwordError):
                continue
            if isinstance(what, AfterwordError) or all(s.candidate.finished for s in group.sequences):
                del self._groups[address]
        self._untold += messages
        progress, now = self._progress(), time.monotonic()
        if at_once or progress != self._told or now - self._told_at >= SECONDS_BETWEEN:
            untold, self._untold = self._untold, []
            self._told, self._told_at = progress, now
            self._outlet.report(untold, progress._replace(waited=waited) if waited else progress)

    def _waits(self) -> tuple[float, ...]:
        admitted = self._scheduler.just_admitted
        # An idle engine takes no further step: without this its last requests would stay in memory.
        self._scheduler.just_admitted = []
        now = time.monotonic()
        return tuple(now - sequence.group.queued_at for sequence in admitted)

    def _progress(self) -> Progress:
        n_taken = len(self._scheduler.running) + self._scheduler.n_waiting
        self._n_ended += self._n_taken - n_taken
        self._n_taken = n_taken
        return Progress(self._n_ended, len(self._scheduler.running), self._kv.n_idle)
