"""llama.cpp without a model: cuts calls into micro-batches as it does and remembers how each row was computed.

The logits after a token are a hash of all visible tokens and of how each was computed. So a reuse that is not allowed
changes answers, and so does a row that is computed among others than it should be.
"""

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from afterword.engine.llama.arithmetic import FLOATS, INDEPENDENT, QUANTISED

N_VOCAB = 64
BATCH_ROWS = 256
STATE_BYTES = 20

SEVERAL, SINGLE, LONE, ANY = "several", "single", "lone", "any"
"""How a row was computed: among several of its slot; as its slot's only one; as the only one of its micro-batch; with
kernels for which it does not matter."""


@dataclass(frozen=True, slots=True)
class Kernels:
    """On what else than its tokens a row's numbers depend."""

    single: bool
    """On whether it is the only one of its slot in the micro-batch."""
    lone: bool
    """On whether it is the only one of the micro-batch, or the only one that is put out."""

    def way(self, n_of_slot: int, n_in_all: int) -> str:
        if self.lone and n_in_all == 1:
            return LONE
        if self.single:
            return SINGLE if n_of_slot == 1 else SEVERAL
        return ANY


KERNELS = {
    QUANTISED: Kernels(single=True, lone=False),
    FLOATS: Kernels(single=True, lone=True),
    INDEPENDENT: Kernels(single=False, lone=False),
}
"""The kernels for which an `Arithmetic` is meant."""


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
        before = self.states[-1] if self.states else b""
        self.states.append(
            hashlib.blake2b(before + token.to_bytes(4, "little") + way.encode(), digest_size=16).digest()
        )

    def first(self, n: int) -> "Cells":
        return Cells(self.tokens[:n], self.ways[:n], self.states[:n])


def n_as_prompt(ways: Sequence[str]) -> int:
    """Tokens before the first that was not computed as a prompt's are."""
    return min((ways.index(way) for way in (SINGLE, LONE) if way in ways), default=len(ways))


def micro_batches(slots: Sequence[int]) -> list[list[int]]:
    """The rows of each micro-batch, in llama.cpp's way (`split_equal`, sequential)."""
    rows: dict[int, list[int]] = {}
    for row, slot in enumerate(slots):
        rows.setdefault(slot, []).append(row)
    found = []
    while rows:
        first = next(iter(rows))  # the slot of the first row that is left: those of a slot go in order
        chosen = [first]
        for slot in rows:
            if slot == chosen[-1] + 1:
                chosen.append(slot)
        n = min(min(len(rows[slot]) for slot in chosen), max(1, BATCH_ROWS // len(chosen)))
        found.append([row for slot in chosen for row in rows[slot][:n]])
        rows = {slot: left[n:] if slot in chosen else left for slot, left in rows.items()}
        rows = {slot: left for slot, left in rows.items() if left}
    return found


@dataclass(slots=True)
class FakeContext:
    """Stands in for a `LlamaContext`; asserts what llama.cpp would refuse."""

    n_slots: int
    kernels: Kernels
    n_vocab: int
    capacity: int
    """Rows a slot can hold, those to be cut off included."""
    can_cut: bool
    """If not, there is a state beside the cells, as in hybrid models."""
    window: int | None = None
    """Cells of a slot that a snapshot has, as of models with sliding windows; None: all."""
    duplicates: list[tuple[int, int]] = field(default_factory=list)
    """Copies that the next decode carries out."""
    cells: list[Cells] = field(init=False)
    state_lengths: list[int] = field(init=False)
    """Tokens after which each slot's state is."""
    rows: Counter[int] = field(default_factory=Counter)
    """Rows of each slot in the latest call."""
    n_micro_batches: int = 0
    """Of the latest call."""
    n_rows: int = 0
    """Of all calls."""
    refused: int | None = None
    """A token: a call with it computes the rows before it and fails."""

    def __post_init__(self) -> None:
        self.cells = [Cells() for _ in range(self.n_slots)]
        self.state_lengths = [0] * self.n_slots

    def decode(
        self, tokens: Sequence[int], positions: Sequence[int], slots: Sequence[int], outputs: Sequence[int]
    ) -> NDArray[np.float32]:
        assert 0 < len(tokens) == len(positions) == len(slots) == len(outputs) <= BATCH_ROWS
        self.duplicates.clear()
        self.rows = Counter(slots)
        self.n_rows += len(tokens)
        batches = micro_batches(slots)
        self.n_micro_batches = len(batches)
        found: dict[int, NDArray[np.float32]] = {}
        for batch in batches:
            n_of_slot = Counter(slots[row] for row in batch)
            only_output = self.kernels.lone and sum(outputs[row] for row in batch) == 1
            for row in batch:
                cells = self.cells[slots[row]]
                if tokens[row] == self.refused:
                    raise RuntimeError("llama_decode failed with code -3")
                assert positions[row] == len(cells.tokens), "positions are contiguous"
                assert self.can_cut or self.state_lengths[slots[row]] == positions[row], "the state is there too"
                assert positions[row] < self.capacity, "rows to be cut off need a place too"
                cells.append(tokens[row], self.kernels.way(n_of_slot[slots[row]], len(batch)))
                self.state_lengths[slots[row]] += 1
                if outputs[row]:
                    found[row] = logits_of(cells.states[-1] + b"lone" * only_output, self.n_vocab)
        return np.array([found[row] for row in sorted(found)], dtype=np.float32).reshape(len(found), self.n_vocab)

    def length(self, slot: int) -> int:
        return len(self.cells[slot].tokens)

    def truncate(self, slot: int, n: int) -> bool:
        if not self.can_cut and 0 < n < self.state_lengths[slot]:
            return False
        self.cells[slot] = self.cells[slot].first(n)
        self.state_lengths[slot] = min(self.state_lengths[slot], n)
        return True

    def can_be_saved(self, slot: int) -> bool:
        return self.window is None or self.length(slot) <= self.window

    def duplicate(self, source: int, target: int) -> None:
        self.cells[target] = self.cells[source].first(self.length(source))
        self.duplicates.append((source, target))

    def snapshot(self, slot: int) -> Cells:
        assert self.can_be_saved(slot)
        assert all(slot != target for _, target in self.duplicates), "it is not there yet"
        assert self.can_cut or self.state_lengths[slot] == self.length(slot)
        return self.cells[slot].first(self.length(slot))

    def restore(self, slot: int, data: Cells) -> None:
        assert all(slot not in pair for pair in self.duplicates), "it will be read or overwritten later"
        self.cells[slot] = data.first(len(data.tokens))
        self.state_lengths[slot] = len(data.tokens)

    def state(self, slot: int) -> NDArray[np.uint8]:
        assert self.state_lengths[slot] == self.length(slot) > 0
        return state_after(self.cells[slot])

    def restore_state(self, slot: int, data: NDArray[np.uint8]) -> None:
        n = int.from_bytes(data[:4].tobytes(), "little")
        assert state_after(self.cells[slot].first(n)).tolist() == data.tolist(), "a state belongs to its cells"
        self.state_lengths[slot] = n


def state_after(cells: Cells) -> NDArray[np.uint8]:
    """`STATE_BYTES` that say how many tokens came before, and which."""
    return np.frombuffer(len(cells.tokens).to_bytes(4, "little") + cells.states[-1], dtype=np.uint8)


def logits_of(state: bytes, n_vocab: int) -> NDArray[np.float32]:
    """(n_vocab,) logits that follow from a history."""
    numbers = np.frombuffer(hashlib.shake_128(state).digest(4 * n_vocab), dtype=np.uint32)
    return (numbers / np.float32(2**29)).astype(np.float32)
