"""From spans to one llama.cpp call, laid out as arithmetic.py says, and from its logits back to spans.

The only caller of `LlamaContext`. Engine thread only.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from afterword.engine.llama.arithmetic import Arithmetic, Rows, lay_out
from afterword.engine.llama.binding import LlamaContext
from afterword.engine.llama.checkpoints import State
from afterword.engine.llama.sequence import Saved, Span
from afterword.engine.llama.thread_count import ThreadCount


@dataclass(frozen=True, slots=True)
class Computed:
    """A span's result."""

    span: Span
    logits: NDArray[np.float32]
    """(number of outputs, n_vocab), valid until the next `forward`."""


class NotComputed(Exception):
    """llama.cpp has not computed the rows of a call. Its slots hold what they held before, those of `lost` nothing."""

    def __init__(self, reason: str, lost: frozenset[int]) -> None:
        super().__init__(reason)
        self.lost = lost


@dataclass(frozen=True, slots=True)
class Uncomputed:
    """A span that could not be computed."""

    span: Span
    error: NotComputed


class Runner(Protocol):
    """What the scheduler needs of a model; the tests have one without any."""

    def forward(self, spans: Sequence[Span]) -> list[Computed]:
        """Compute spans of distinct sequences, chosen as a `Policy` must; results in the same order.

        Raises `NotComputed`.
        """
        ...

    def copy(self, source: int, target: int, n: int, state: State | None = None) -> None:
        """Make `target` hold the first n tokens of `source`.

        `state`: that after those tokens, where memory cannot be cut and `source` holds more.
        """
        ...

    def truncate(self, slot: int, n: int, state: State | None = None) -> None:
        """Keep the first n tokens of a slot; `state` as for `copy`."""
        ...

    def state(self, slot: int) -> State:
        """The state after all tokens of a slot."""
        ...

    def can_be_saved(self, slot: int) -> bool:
        """Whether the slot may be exchanged and saved."""
        ...

    def exchange(self, a: int, b: int, n_a: int, n_b: int) -> None:
        """Exchange the contents of two slots that hold n_a and n_b tokens."""
        ...

    def save(self, slot: int) -> Saved:
        """A copy of all that a slot holds, outside of the slots."""
        ...

    def load(self, slot: int, saved: Saved) -> None:
        """Make a slot hold what was saved, to the bit."""
        ...


class LlamaRunner(Runner):
    """`Runner` on a llama.cpp context, which has the spare slots of its arithmetic at its end."""

    def __init__(self, context: LlamaContext, arithmetic: Arithmetic, threads: ThreadCount) -> None:
        """`threads`: begins with those that the context has."""
        self._context = context
        self._arithmetic = arithmetic
        self._threads = threads
        self._snapshot: tuple[int, Saved] | None = None
        self._duplicate: int | None = None
        """The latest slot that the next decode makes equal another one."""

    @override
    def forward(self, spans: Sequence[Span]) -> list[Computed]:
        self._snapshot = self._duplicate = None
        rows = lay_out(map(_rows_of, spans), self._arithmetic, self._context.length)
        try:
            logits = self._decode(rows)
        except RuntimeError as error:
            raise NotComputed(str(error), self._take_back(rows)) from error
        for piece in rows:
            if piece.n_kept < len(piece.tokens):
                self.truncate(piece.slot, piece.start + piece.n_kept)
        found = _logits_asked_for(rows, logits)
        return [Computed(span, found[span.sequence.slot_id]) for span in spans]

    def _decode(self, rows: list[Rows]) -> NDArray[np.float32]:
        # Lists: a step mostly has a row a piece, and numpy takes a microsecond or more for anything.
        tokens: list[int] = []
        positions: list[int] = []
        slots: list[int] = []
        outputs: list[int] = []
        for piece in rows:
            n = len(piece.tokens)
            tokens += piece.tokens
            positions += range(piece.start, piece.start + n)
            slots += [piece.slot] * n
            outputs += piece.outputs
        n_threads, began, had = self._threads.n, time.perf_counter(), time.process_time()
        logits = self._context.decode(tokens, positions, slots, outputs)
        self._threads.note(began, time.perf_counter(), time.process_time() - had)
        if self._threads.n != n_threads:
            self._context.use_threads(self._threads.n)
        return logits

    def _take_back(self, rows: list[Rows]) -> frozenset[int]:
        """Have each slot hold what it held before the rows. Those that cannot be cut there hold nothing then."""
        lost = frozenset(piece.slot for piece in rows if not self._context.truncate(piece.slot, piece.start))
        for slot in lost:
            self._context.truncate(slot, 0)
        return lost

    @override
    def copy(self, source: int, target: int, n: int, state: State | None = None) -> None:
        if self._duplicate is None and self._context.can_be_saved(source):
            self._copy_by_snapshot(source, target)
        else:
            # In order with others, so that none reads what another one has not written yet.
            self._context.duplicate(source, target)
            self._duplicate, self._snapshot = target, None
        self.truncate(target, n, state)

    def _copy_by_snapshot(self, source: int, target: int) -> None:
        # llama.cpp's own copy between slots takes longer: it moves unused cells too. Copies from one source in a row
        # share a snapshot.
        if self._snapshot is not None and self._snapshot[0] == target:
            self._snapshot = None
        if self._snapshot is None or self._snapshot[0] != source:
            self._snapshot = (source, self._context.snapshot(source))
        self._context.restore(target, self._snapshot[1])

    def _finish_copies(self) -> None:
        """Have keys and values where they belong before they are read or written outside of a decode."""
        if self._duplicate is not None:
            slot, n = self._duplicate, self._context.length(self._duplicate)
            self._context.decode([0], [n], [slot], [0])
            self._context.truncate(slot, n)
            self._duplicate = None

    @override
    def can_be_saved(self, slot: int) -> bool:
        return self._context.can_be_saved(slot)

    @override
    def truncate(self, slot: int, n: int, state: State | None = None) -> None:
        if self._snapshot is not None and self._snapshot[0] == slot:
            self._snapshot = None
        if state is not None:
            self._context.restore_state(slot, state)
        if not self._context.truncate(slot, n):
            raise RuntimeError(f"llama.cpp cannot cut slot {slot} to {n} tokens")

    @override
    def state(self, slot: int) -> State:
        return self._context.state(slot)

    @override
    def exchange(self, a: int, b: int, n_a: int, n_b: int) -> None:
        self._snapshot = None
        self._finish_copies()
        held = [(slot, self._context.snapshot(slot)) for slot, n in ((a, n_a), (b, n_b)) if n > 0]
        for slot in (a, b):
            self._context.truncate(slot, 0)
        for slot, data in held:
            self._context.restore(b if slot == a else a, data)

    @override
    def save(self, slot: int) -> Saved:
        self._finish_copies()
        return self._context.snapshot(slot)

    @override
    def load(self, slot: int, saved: Saved) -> None:
        self._snapshot = None
        self._finish_copies()
        self._context.restore(slot, saved)


def _rows_of(span: Span) -> Rows:
    """The rows of a span alone."""
    sequence = span.sequence
    tokens: list[int] = sequence.pending_tokens(span.n).tolist()
    return Rows(sequence.slot_id, span.start, tokens, span.outputs.tolist(), of_prompt=sequence.prefilling)


def _logits_asked_for(rows: Sequence[Rows], logits: NDArray[np.float32]) -> dict[int, NDArray[np.float32]]:
    """Each slot's rows of `logits`, which has one for each output; views, unless a row is among them unasked."""
    found: dict[int, NDArray[np.float32]] = {}
    start = 0
    for piece in rows:
        n = sum(piece.outputs)
        found[piece.slot] = logits[start : start + n]
        if piece.unasked is not None:
            found[piece.slot] = np.delete(found[piece.slot], sum(piece.outputs[: piece.unasked]), axis=0)
        start += n
    return found
