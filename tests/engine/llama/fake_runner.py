"""A `Runner` without a model, for the scheduler's tests: it remembers how every token was computed.

The logits after a token are a hash of all visible tokens and of whether each was computed in company or alone, as
llama.cpp's bits depend on both (company.py). So any unlawful reuse of a prefix, or a piece of one row where there
should be several, changes answers.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import takewhile

import numpy as np
from numpy.typing import NDArray

from afterword.engine.llama.kv import KVSlots
from afterword.engine.llama.runner import Computed
from afterword.engine.llama.sequence import Span

N_VOCAB = 64
BATCH_ROWS = 256
COMPANY, ALONE = "company", "alone"


@dataclass(slots=True)
class Cells:
    """What one slot really holds."""

    tokens: list[int] = field(default_factory=list)
    ways: list[str] = field(default_factory=list)
    """How each token was computed."""
    states: list[bytes] = field(default_factory=list)
    """Hash of everything up to and including each token."""

    def append(self, token: int, way: str) -> None:
        self.tokens.append(token)
        self.ways.append(way)
        self.states.append(next_state(self.states[-1] if self.states else b"", token, way))

    def first(self, n: int) -> "Cells":
        return Cells(self.tokens[:n], self.ways[:n], self.states[:n])


def next_state(state: bytes, token: int, way: str) -> bytes:
    """The hash of a history that goes on with `token`."""
    return hashlib.blake2b(state + token.to_bytes(4, "little") + way.encode(), digest_size=16).digest()


def logits_of(state: bytes, n_vocab: int = N_VOCAB) -> NDArray[np.float32]:
    """(n_vocab,) logits that follow from a history."""
    numbers = np.frombuffer(hashlib.shake_128(state).digest(4 * n_vocab), dtype=np.uint32)
    return (numbers / np.float32(2**29)).astype(np.float32)


def n_in_company(ways: Sequence[str]) -> int:
    """Tokens before the first that was computed alone."""
    return sum(1 for _ in takewhile(lambda way: way == COMPANY, ways))


@dataclass(slots=True)
class FakeRunner:
    """Asserts the rules of every call; `calls` has each call's (slot, tokens, rows)."""

    n_slots: int
    n_vocab: int = N_VOCAB
    capacity: int = 3000
    """Rows a slot can hold, those to be thrown away included."""
    can_cut: bool = True
    cells: list[Cells] = field(init=False)
    calls: list[list[tuple[int, int, int]]] = field(default_factory=list)
    copies: list[tuple[int, int, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.cells = [Cells() for _ in range(self.n_slots)]

    def forward(self, spans: Sequence[Span]) -> list[Computed]:
        ids = [span.sequence.slot_id for span in spans]
        self.calls.append([(i, span.n, span.n_rows) for i, span in zip(ids, spans, strict=True)])
        assert spans, "a call has rows"
        assert len(set(ids)) == len(ids), "a slot has one span"
        assert len({span.n_rows for span in spans}) == 1, "unequal spans are computed apart"
        assert sum(span.n_rows for span in spans) <= BATCH_ROWS
        if not self.can_cut:
            assert len(spans) == 1 or spans[0].n_rows == 1, "one prompt at a time"
        return [self._compute(span) for span in spans]

    def _compute(self, span: Span) -> Computed:
        cells, sequence = self.cells[span.sequence.slot_id], span.sequence
        assert span.start == len(cells.tokens), "positions are contiguous"
        assert span.start + span.n_rows <= self.capacity, "rows to be thrown away need a place too"
        assert span.outputs.shape == (span.n,)
        if span.n != span.n_rows:
            assert self.can_cut, "nothing can be thrown away"
            assert 0 < span.n == sequence.n_pending < span.n_rows, "only the end of a prompt is filled up"
        way = COMPANY if span.n_rows >= 2 else ALONE
        for token in sequence.pending_tokens(span.n).tolist():
            cells.append(token, way)
        wanted = (span.start + np.flatnonzero(span.outputs)).tolist()
        rows = [logits_of(cells.states[position], self.n_vocab) for position in wanted]
        return Computed(span, np.array(rows, dtype=np.float32).reshape(len(rows), self.n_vocab))

    def copy(self, source: int, target: int, n: int) -> None:
        assert source != target
        assert 0 < n <= len(self.cells[source].tokens)
        assert self.can_cut or n == len(self.cells[source].tokens)
        self.copies.append((source, target, n))
        self.cells[target] = self.cells[source].first(n)

    def truncate(self, slot: int, n: int) -> None:
        assert n <= len(self.cells[slot].tokens)
        assert self.can_cut or n in (0, len(self.cells[slot].tokens))
        self.cells[slot] = self.cells[slot].first(n)

    def exchange(self, a: int, b: int, n_a: int, n_b: int) -> None:
        assert len(self.cells[a].tokens) >= n_a
        assert len(self.cells[b].tokens) >= n_b
        self.cells[a], self.cells[b] = self.cells[b], self.cells[a]

    def check_books(self, kv: KVSlots) -> None:
        """Assert that the books say what the slots hold, and call exact what is: no less, no more.

        A slot that nobody runs on may hold more than its books: it is cut to them before it is used again.
        """
        for slot, cells in zip(kv, self.cells, strict=True):
            assert slot.tokens[: slot.n].tolist() == cells.tokens[: slot.n]
            assert not slot.running or slot.n == len(cells.tokens)
            # Without a second row that can be taken away again nothing is promised.
            assert not self.can_cut or slot.n_exact == n_in_company(cells.ways[: slot.n])
