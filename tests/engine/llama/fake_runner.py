"""A `Runner` without a model, for the scheduler's tests: it remembers which kernel computed every token.

The logits after a token are a hash of all visible tokens and of the kernels that computed them, as llama.cpp's bits
depend on both. So any unlawful reuse of a prefix, or a cut that sends a token to the wrong kernel, changes answers.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from afterword.engine.llama.kernels import TILE
from afterword.engine.llama.kv import KVStreams
from afterword.engine.llama.runner import SPLIT_KV, Computed
from afterword.engine.llama.sequence import Span

N_VOCAB = 64
BATCH_ROWS = 512
TILED, ROW, LONE = "tiled", "row", "lone"


@dataclass(slots=True)
class Cells:
    """What one stream really holds."""

    tokens: list[int] = field(default_factory=list)
    kernels: list[str] = field(default_factory=list)
    states: list[bytes] = field(default_factory=list)
    """Hash of everything up to and including each token."""

    def append(self, token: int, kernel: str) -> None:
        self.tokens.append(token)
        self.kernels.append(kernel)
        self.states.append(next_state(self.states[-1] if self.states else b"", token, kernel))

    def first(self, n: int) -> "Cells":
        return Cells(self.tokens[:n], self.kernels[:n], self.states[:n])


def next_state(state: bytes, token: int, kernel: str) -> bytes:
    """The hash of a history that goes on with `token`."""
    return hashlib.blake2b(state + token.to_bytes(4, "little") + kernel.encode(), digest_size=16).digest()


def logits_of(state: bytes, n_vocab: int = N_VOCAB) -> NDArray[np.float32]:
    """(n_vocab,) logits that follow from a history."""
    numbers = np.frombuffer(hashlib.shake_128(state).digest(4 * n_vocab), dtype=np.uint32)
    return (numbers / np.float32(2**29)).astype(np.float32)


@dataclass(slots=True)
class FakeRunner:
    """Asserts the rules that llama.cpp and the kernels ask of every call; `calls` has each call's (stream, n)."""

    n_streams: int
    n_vocab: int = N_VOCAB
    cells: list[Cells] = field(init=False)
    calls: list[list[tuple[int, int]]] = field(default_factory=list)
    copies: list[tuple[int, int, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.cells = [Cells() for _ in range(self.n_streams)]

    def forward(self, spans: Sequence[Span]) -> list[Computed]:
        ids = [_stream_id(span) for span in spans]
        self.calls.append([(i, span.n) for i, span in zip(ids, spans, strict=True)])
        assert spans, "a call has rows"
        assert len(set(ids)) == len(ids), "a stream has one span"
        assert len({span.n for span in spans}) == 1, "unequal spans can be split below a tile"
        assert sum(span.n for span in spans) <= BATCH_ROWS
        return [self._compute(span, _is_lone(i, ids, span.n)) for i, span in zip(ids, spans, strict=True)]

    def _compute(self, span: Span, lone: bool) -> Computed:
        cells, sequence = self.cells[_stream_id(span)], span.sequence
        assert sequence.stream is not None
        tiled_end = sequence.stream.tiled_end
        assert span.start == len(cells.tokens), "positions are contiguous"
        assert span.outputs.shape == (span.n,)
        kernel = TILED if span.n >= TILE else ROW
        if kernel == TILED:
            assert span.n % TILE == 0
            assert span.start + span.n <= tiled_end, "row tokens do not go to the tiled kernel"
        else:
            assert span.start >= tiled_end, "tiled tokens do not go to the row kernel"
        if lone and span.start + span.n > SPLIT_KV and not sequence.demand.reproducible:
            kernel = LONE
        for token in sequence.pending_tokens(span.n).tolist():
            cells.append(token, kernel)
        wanted = (span.start + np.flatnonzero(span.outputs)).tolist()
        rows = [logits_of(cells.states[position], self.n_vocab) for position in wanted]
        logits = np.array(rows, dtype=np.float32).reshape(len(rows), self.n_vocab)
        return Computed(span, logits, kernel != LONE)

    def copy(self, source: int, target: int, n: int) -> None:
        assert source != target
        assert 0 < n <= len(self.cells[source].tokens)
        self.copies.append((source, target, n))
        self.cells[target] = self.cells[source].first(n)

    def truncate(self, stream: int, n: int) -> None:
        assert n <= len(self.cells[stream].tokens)
        self.cells[stream] = self.cells[stream].first(n)

    def exchange(self, a: int, b: int, n_a: int, n_b: int) -> None:
        assert len(self.cells[a].tokens) >= n_a
        assert len(self.cells[b].tokens) >= n_b
        self.cells[a], self.cells[b] = self.cells[b], self.cells[a]

    def check_books(self, kv: KVStreams) -> None:
        """Assert that the books say what the streams hold, and that what they call exact is.

        A stream that nobody runs on may hold more than its books: it is cut to them before it is used again.
        """
        for stream, cells in zip(kv, self.cells, strict=True):
            assert stream.tokens[: stream.n].tolist() == cells.tokens[: stream.n]
            assert not stream.running or stream.n == len(cells.tokens)
            n_tiled = min(stream.n, stream.tiled_end)
            assert cells.kernels[:n_tiled] == [TILED] * n_tiled
            assert TILED not in cells.kernels[n_tiled : stream.n]
            assert LONE not in cells.kernels[: stream.n_exact]


def _stream_id(span: Span) -> int:
    assert span.sequence.stream is not None
    return span.sequence.stream.id


def _is_lone(stream: int, ids: Sequence[int], n: int) -> bool:
    """Whether a one-token span has no neighbour in a consecutive stream to share its micro-batch with."""
    return n == 1 and stream - 1 not in ids and stream + 1 not in ids
