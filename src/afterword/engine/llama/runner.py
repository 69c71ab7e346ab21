"""Spans into one llama.cpp call and its logits back.

Adds the rows that keep numbers from depending on luck (company.py) and takes them away again: rows behind a piece of
a prompt, and for models with float weights, whose matrices multiply one row by another routine than several, a row of
the slot next door for a token that would be the only one in its micro-batch.

The only caller of `LlamaContext`. Engine thread only.
"""

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from afterword.engine.llama.binding import LlamaContext
from afterword.engine.llama.sequence import Span


@dataclass(frozen=True, slots=True)
class Computed:
    """What became of a span."""

    span: Span
    logits: NDArray[np.float32]
    """(number of outputs, n_vocab), valid until the next `forward`."""


class Runner(Protocol):
    """What the scheduler needs of a model; the tests have one without any."""

    def forward(self, spans: Sequence[Span]) -> list[Computed]:
        """Compute spans of distinct sequences, all with the same number of rows; results in the same order."""
        ...

    def copy(self, source: int, target: int, n: int) -> None:
        """Make `target` hold the first n tokens of `source`."""
        ...

    def truncate(self, slot: int, n: int) -> None:
        """Keep the first n tokens of a slot."""
        ...

    def exchange(self, a: int, b: int, n_a: int, n_b: int) -> None:
        """Let two slots that hold n_a and n_b tokens change places."""
        ...


class LlamaRunner:
    """`Runner` on a llama.cpp context. With float weights the context has one slot more than the scheduler uses."""

    def __init__(self, context: LlamaContext, *, float_weights: bool) -> None:
        self._context = context
        self._float_weights = float_weights
        self._snapshot: tuple[int, ctypes.Array[ctypes.c_uint8]] | None = None

    def forward(self, spans: Sequence[Span]) -> list[Computed]:
        """See `Runner.forward`. Rows go in ascending slot order, as llama.cpp batches best."""
        self._snapshot = None
        pieces = [_Piece.of(span) for span in sorted(spans, key=lambda span: span.sequence.slot_id)]
        if self._float_weights:
            pieces = self._with_company(pieces)
        logits = self._decode(pieces)
        for piece in pieces:
            if piece.n_kept < len(piece.tokens):
                self.truncate(piece.slot, piece.start + piece.n_kept)
        found = _rows_of(pieces, logits)
        return [Computed(span, found[span.sequence.slot_id]) for span in spans]

    def _decode(self, pieces: list["_Piece"]) -> NDArray[np.float32]:
        # Lists: a step mostly has a row a piece, and numpy takes a microsecond or more for anything.
        tokens: list[int] = []
        positions: list[int] = []
        slots: list[int] = []
        outputs: list[int] = []
        for piece in pieces:
            n = len(piece.tokens)
            tokens += piece.tokens
            positions += range(piece.start, piece.start + n)
            slots += [piece.slot] * n
            outputs += piece.outputs
        return self._context.decode(tokens, positions, slots, outputs)

    def _with_company(self, pieces: list["_Piece"]) -> list["_Piece"]:
        """No micro-batch of a single row, and none that puts out a single row."""
        complete: list[_Piece] = []
        for run in _runs(pieces):
            complete += run
            if len(run) == 1 and len(run[0].tokens) == 1:
                next_door = run[0].slot + 1
                end = self._context.length(next_door)
                complete.append(_Piece.visitor(next_door, end, run[0].tokens[0]))
        for run in _runs(complete):
            if sum(sum(piece.outputs) for piece in run) == 1:
                spare = next(piece for piece in run if not all(piece.outputs))
                spare.outputs[max(i for i, output in enumerate(spare.outputs) if output == 0)] = 1
        return complete

    def copy(self, source: int, target: int, n: int) -> None:
        """See `Runner.copy`. Several copies from one source in a row take its snapshot once.

        Not llama.cpp's own copy between slots: that moves unused cells too, and only with the next decode, so a
        snapshot in between would still see what was there before.
        """
        if self._snapshot is not None and self._snapshot[0] == target:
            self._snapshot = None
        if self._snapshot is None or self._snapshot[0] != source:
            self._snapshot = (source, self._context.snapshot(source))
        self._context.restore(target, self._snapshot[1])
        self._context.truncate(target, n)

    def truncate(self, slot: int, n: int) -> None:
        """See `Runner.truncate`."""
        if self._snapshot is not None and self._snapshot[0] == slot:
            self._snapshot = None
        if not self._context.truncate(slot, n):
            raise RuntimeError(f"llama.cpp cannot cut slot {slot} to {n} tokens")

    def exchange(self, a: int, b: int, n_a: int, n_b: int) -> None:
        """See `Runner.exchange`."""
        self._snapshot = None
        held = [(slot, self._context.snapshot(slot)) for slot, n in ((a, n_a), (b, n_b)) if n > 0]
        for slot in (a, b):
            self._context.truncate(slot, 0)
        for slot, data in held:
            self._context.restore(b if slot == a else a, data)


@dataclass(slots=True)
class _Piece:
    """The rows of one slot in a call."""

    slot: int
    start: int
    """Position of the first row."""
    tokens: list[int]
    outputs: list[int]
    """1 for each row whose logits llama.cpp puts out, else 0."""
    n_kept: int
    """Rows that stay; the others are cut off after the call."""
    wanted: list[int] = field(default_factory=list)
    """Rows whose logits were asked for."""

    @classmethod
    def of(cls, span: Span) -> "_Piece":
        """A span and, behind it, the rows that are thrown away. Any token does for those."""
        tokens: list[int] = span.sequence.pending_tokens(span.n).tolist()
        outputs: list[int] = span.outputs.tolist()
        wanted = [i for i, output in enumerate(outputs) if output]
        n_more = span.n_rows - span.n
        return cls(
            slot=span.sequence.slot_id,
            start=span.start,
            tokens=tokens + tokens[-1:] * n_more,
            outputs=outputs + [0] * n_more,
            n_kept=span.n,
            wanted=wanted,
        )

    @classmethod
    def visitor(cls, slot: int, end: int, token: int) -> "_Piece":
        """One row behind the content of a slot that has nothing to compute."""
        return cls(slot, end, [token], [1], n_kept=0)


def _runs(pieces: list[_Piece]) -> list[list[_Piece]]:
    """Pieces that share a micro-batch: llama.cpp computes each run of consecutive slot ids apart."""
    runs: list[list[_Piece]] = []
    for piece in pieces:
        if runs and piece.slot == runs[-1][-1].slot + 1:
            runs[-1].append(piece)
        else:
            runs.append([piece])
    return runs


def _rows_of(pieces: list[_Piece], logits: NDArray[np.float32]) -> dict[int, NDArray[np.float32]]:
    """Each slot's wanted rows of `logits`, which has a row for each output of each piece."""
    found: dict[int, NDArray[np.float32]] = {}
    start = 0
    for piece in pieces:
        put_out = [i for i, output in enumerate(piece.outputs) if output]
        rows = logits[start : start + len(put_out)]
        start += len(put_out)
        # A view where nothing else was put out: rows of a large vocabulary are not copied without need.
        found[piece.slot] = (
            rows if len(put_out) == len(piece.wanted) else rows[[put_out.index(i) for i in piece.wanted]]
        )
    return found
