"""What each KV slot holds, and how much of it a new prompt can reuse.

Bookkeeping only: no model, no threads. The scheduler reports what was computed and carries out the copies.

    |──── computed as a prompt (arithmetic.py) ──|──── sampled, or after something sampled ────|
    0                                        n_exact                                           n

A slot is `running` while a sequence holds it. Otherwise its tokens stay as prefix cache until the slot is needed. Where
memory cannot be cut, a prefix that does not end with the slot can be reused up to a checkpoint (checkpoints.py).
"""

from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from afterword.engine.llama.arithmetic import MICRO_BATCH
from afterword.engine.llama.checkpoints import MOST_IN_A_SLOT, Checkpoint, State
from afterword.engine.llama.demand import Demand, Kin, ScoreRow

KEEP = 64
"""A slot with more tokens than this beyond the common prefix is copied, not cut: they may be reused again."""

WORTH_COPYING = 32
"""Tokens. Shorter prefixes are computed again, which is faster than a copy."""


@dataclass(slots=True)
class Slot:
    """One KV slot, of which `n` tokens are computed."""

    id: int
    tokens: NDArray[np.int32]
    n: int = 0
    n_exact: int = 0
    """Leading tokens that were computed as a prompt's: what a reproducible request may reuse."""
    running: bool = False
    used_at: int = 0
    rows: list[ScoreRow | None] = field(default_factory=list)
    """One for each token, None where no score was wanted."""
    checkpoints: list[Checkpoint] = field(default_factory=list)
    """Ascending; at most one for each number of tokens."""
    kin: Kin | None = None
    """`Group.kin` of who had it last."""

    def free_of(self, kin: Kin) -> bool:
        """Whether these had it last, and none of them has it now."""
        return not self.running and self.kin == kin and self.n > 0

    def cut(self, n: int) -> None:
        """Forget all but the first n tokens."""
        assert n <= self.n
        self.n = n
        self.n_exact = min(self.n_exact, n)
        del self.rows[n:]
        self.checkpoints = self.checkpoints_within(n)

    def checkpoints_within(self, n: int) -> list[Checkpoint]:
        """Those of the first n tokens."""
        return [checkpoint for checkpoint in self.checkpoints if checkpoint.n <= n]


@dataclass(frozen=True, slots=True)
class Reuse:
    """A prefix of `n` tokens of `slot`."""

    slot: Slot
    n: int
    checkpoint: Checkpoint | None = None
    """The one that must be restored: the prefix ends there, and memory cannot be cut."""

    @property
    def state(self) -> State | None:
        """The state that must be restored."""
        return None if self.checkpoint is None else self.checkpoint.state


@dataclass(frozen=True, slots=True)
class Placement:
    """The slot for a sequence, and how much of its prompt is reused."""

    slot: Slot
    n_reused: int
    copy_from: Slot | None
    """Its first `n_reused` tokens must be copied to `slot` first; None: they are in place."""
    checkpoint: Checkpoint | None = None
    """As in `Reuse`."""

    @property
    def state(self) -> State | None:
        """The state that must be restored."""
        return None if self.checkpoint is None else self.checkpoint.state


@dataclass(frozen=True, slots=True)
class Books:
    """What a slot held that another sequence was given, for when its own goes on."""

    tokens: NDArray[np.int32]
    n_exact: int
    rows: list[ScoreRow | None]


class KVSlots:
    """All slots of one context. Engine thread only."""

    def __init__(
        self,
        n_slots: int,
        capacity: int,
        *,
        n_cells: int | None = None,
        can_cut: bool = True,
        checkpoint_bytes: int = 0,
    ) -> None:
        """`n_cells`: tokens that all slots may hold together, None: as many as they have room for. `checkpoint_bytes`:
        what all checkpoints may take together."""
        self._slots = [Slot(i, np.zeros(capacity, dtype=np.int32)) for i in range(n_slots)]
        self.capacity = capacity
        """Tokens a slot can hold."""
        self.n_cells = n_slots * capacity if n_cells is None else n_cells
        self.can_cut = can_cut
        """Whether a slot can lose its end."""
        self._checkpoint_bytes = checkpoint_bytes
        self._spacing = max(MICRO_BATCH, capacity // MOST_IN_A_SLOT)
        """Tokens after which a state is kept in any case."""
        self._clock = 0

    def __iter__(self) -> Iterator[Slot]:
        return iter(self._slots)

    @property
    def n_slots(self) -> int:
        """All of them."""
        return len(self._slots)

    def slot(self, slot_id: int) -> Slot:
        """The slot of that id."""
        return self._slots[slot_id]

    @property
    def shared_out(self) -> bool:
        """Whether slots share cells that are fewer than all of them have room for."""
        return self.n_cells < self.n_slots * self.capacity

    @property
    def n_running(self) -> int:
        """Slots that a sequence holds."""
        return sum(s.running for s in self._slots)

    @property
    def n_idle(self) -> int:
        """Slots without a sequence whose tokens are kept."""
        return sum(not s.running and s.n > 0 for s in self._slots)

    @property
    def n_free(self) -> int:
        """Slots without a sequence, whether or not they keep tokens."""
        return sum(not s.running for s in self._slots)

    def best_reuse(self, demand: Demand) -> Reuse | None:
        """The prefix that saves most computing; None if there is none. Of equals one that needs no copy."""
        found = [self.reuse(slot, self._n_common(slot, demand)) for slot in self._slots if slot.n > 0]
        best = max(found, key=self._worth, default=None)
        return None if best is None or best.n == 0 else best

    def _worth(self, reuse: Reuse) -> tuple[int, bool, int]:
        """Sorts reuses by what they save: nothing, if one needs a copy and is too short for it."""
        in_place = self._in_place(reuse)
        return reuse.n if in_place or reuse.n >= WORTH_COPYING else 0, in_place, reuse.n

    def n_shared(self, demand: Demand) -> int:
        """Most tokens that a demand has in common with a slot and could reuse if memory could be cut."""
        return max(self._n_common(slot, demand) for slot in self._slots)

    def _n_common(self, slot: Slot, demand: Demand) -> int:
        """Tokens of a slot that are a demand's too. A prompt's last token is always computed, for its logits."""
        n = min(common_prefix(slot.tokens[: slot.n], demand.prompt), len(demand.prompt) - 1)
        if demand.reproducible:
            n = min(n, slot.n_exact)
        if demand.score_top is not None:
            n = _first_missing_row(slot, demand, n)
        return n

    def reuse(self, slot: Slot, n: int) -> Reuse:
        """As much of the first n tokens of a slot as can be reused."""
        if self.can_cut or n == slot.n:
            return Reuse(slot, n)
        within = slot.checkpoints_within(n)
        return Reuse(slot, within[-1].n, within[-1]) if within else Reuse(slot, 0)

    def idle(self, spared: Slot | None) -> list[Slot]:
        """Slots whose tokens are only kept, those unused for longest first, `spared` last."""
        kept = [s for s in self._slots if not s.running and s.n > 0]
        return sorted(kept, key=lambda s: (s is spared, s.used_at))

    def place(self, reuse: Reuse | None, kin: Kin | None = None, spared: Set[int] = frozenset()) -> Placement | None:
        """Choose a slot for a prompt that can reuse `reuse`; None if every slot is running.

        One that its kin have had is cut however much that loses. Ids of `spared` are overwritten last. The caller
        copies if `copy_from` is set, then calls `open` with the placement.
        """
        if reuse is not None and (self._in_place(reuse) or (kin is not None and reuse.slot.free_of(kin))):
            return Placement(reuse.slot, reuse.n, None, reuse.checkpoint)
        target = self._victim(None if reuse is None else reuse.slot, spared)
        if target is None:
            return None
        if reuse is None or (reuse.slot is not target and reuse.n < WORTH_COPYING):
            return Placement(target, 0, None)
        source = None if reuse.slot is target else reuse.slot
        return Placement(target, reuse.n, source, reuse.checkpoint)

    def _in_place(self, reuse: Reuse) -> bool:
        """Whether the slot is free, and cutting it to the prefix loses little."""
        return not reuse.slot.running and reuse.slot.n - reuse.n <= KEEP

    def _victim(self, source: Slot | None, spared: Set[int] = frozenset()) -> Slot | None:
        """The slot to overwrite: the lowest empty one (arithmetic.py), else the least recently used, those of `spared`
        and `source` last."""
        idle = [s for s in self._slots if not s.running]
        if not idle:
            return None
        return min(idle, key=lambda s: (s.n > 0, s.id in spared, s is source, s.used_at, s.id))

    def open(self, placement: Placement) -> None:
        """Record the placement: the slot holds the reused prefix and is running."""
        slot, source = placement.slot, placement.copy_from
        assert not slot.running
        if source is not None:
            self.copy(source, slot, placement.n_reused)
        else:
            slot.cut(placement.n_reused)
        slot.running = True
        self._touch(slot)
        if placement.checkpoint is not None:
            placement.checkpoint.used_at = self._clock

    def copy(self, source: Slot, target: Slot, n: int) -> None:
        """Record that a slot now holds the first n tokens of another one."""
        self._touch(source)
        target.tokens[:n] = source.tokens[:n]
        target.n, target.n_exact = n, min(source.n_exact, n)
        target.rows = source.rows[:n]
        target.checkpoints = source.checkpoints_within(n)

    def append(self, slot: Slot, tokens: Sequence[int] | NDArray[np.int32], *, exact: bool) -> None:
        """Record tokens computed at the end of a running slot; `exact`: as a prompt's, not sampled."""
        n = len(tokens)
        assert slot.running
        assert slot.n + n <= self.capacity
        slot.tokens[slot.n : slot.n + n] = tokens
        if exact and slot.n_exact == slot.n:
            slot.n_exact += n
        slot.n += n
        slot.rows.extend([None] * n)

    def close(self, slot: Slot) -> None:
        """The sequence has ended; its tokens stay as prefix cache."""
        assert slot.running
        slot.running = False
        self._touch(slot)

    def books(self, slot: Slot) -> Books:
        """What is recorded of a slot."""
        return Books(slot.tokens[: slot.n].copy(), slot.n_exact, slot.rows[:])

    def reopen(self, books: Books) -> Slot | None:
        """Choose a slot for a sequence that goes on, and record what the caller now puts back into it."""
        slot = self._victim(None)
        if slot is not None:
            slot.n, slot.n_exact, slot.rows = len(books.tokens), books.n_exact, books.rows
            slot.checkpoints = []
            slot.tokens[: slot.n] = books.tokens
            slot.running = True
            self._touch(slot)
        return slot

    def drop_unrecorded(self, slot: Slot) -> None:
        """An idle slot holds more tokens than are recorded. Where they cannot be cut off, none is kept."""
        assert not slot.running
        if not self.can_cut:
            slot.cut(0)

    def n_behind(self, slot: Slot) -> int:
        """Tokens since the slot's last checkpoint; 0 where memory can be cut, which needs none."""
        if self.can_cut:
            return 0
        return slot.n - slot.checkpoints[-1].n if slot.checkpoints else slot.n

    def is_due(self, slot: Slot, places: Set[int]) -> bool:
        """Whether the state of a slot is to be kept now: at one of those places, and after so many tokens."""
        n = self.n_behind(slot)
        return n >= self._spacing or (n > 0 and slot.n in places)

    def keep(self, slot: Slot, state: State) -> None:
        """Record the state after all tokens of a running slot; if there are too many, the least recently used go."""
        assert slot.running
        assert self.n_behind(slot) > 0
        self._touch(slot)
        slot.checkpoints.append(Checkpoint(slot.n, state, self._clock))
        kept = sorted({c for each in self._slots for c in each.checkpoints}, key=lambda c: c.used_at)
        excess = sum(len(c.state) for c in kept) - self._checkpoint_bytes
        for checkpoint in kept:
            if excess <= 0:
                break
            excess -= len(checkpoint.state)
            for each in self._slots:
                each.checkpoints = [c for c in each.checkpoints if c is not checkpoint]

    def forget(self, slot: Slot, start: int, end: int) -> None:
        """Drop the states of a slot after more than `start` and at most `end` tokens, but for the last of them."""
        within = [c for c in slot.checkpoints if start < c.n <= end][:-1]
        slot.checkpoints = [c for c in slot.checkpoints if c not in within]

    def exchange(self, a: Slot, b: Slot) -> None:
        """Two slots were exchanged, to close a gap (arithmetic.py)."""
        for name in ("tokens", "n", "n_exact", "running", "used_at", "rows", "checkpoints", "kin"):
            value = getattr(a, name)
            setattr(a, name, getattr(b, name))
            setattr(b, name, value)

    def _touch(self, slot: Slot) -> None:
        self._clock += 1
        slot.used_at = self._clock

    def check_invariants(self) -> None:
        """Assert what must hold between operations; the tests call it after each."""
        for slot in self._slots:
            assert 0 <= slot.n <= self.capacity
            assert 0 <= slot.n_exact <= slot.n
            assert len(slot.rows) == slot.n
            ends = [checkpoint.n for checkpoint in slot.checkpoints]
            assert ends == sorted(set(ends))
            assert not ends or (not self.can_cut and ends[0] > 0 and ends[-1] <= slot.n)
        kept = {checkpoint for slot in self._slots for checkpoint in slot.checkpoints}
        assert sum(len(checkpoint.state) for checkpoint in kept) <= self._checkpoint_bytes


def common_prefix(a: NDArray[np.int32], b: NDArray[np.int32]) -> int:
    """Length of the common prefix of two token arrays."""
    n = min(len(a), len(b))
    differs = a[:n] != b[:n]
    first = int(differs.argmax()) if n else 0
    return first if n and differs[first] else n


def _first_missing_row(slot: Slot, demand: Demand, n: int) -> int:
    """First position before n whose score row is wanted and cannot be reused; n if none."""
    return next((i for i in range(demand.score_from, n) if not demand.is_met_by(slot.rows[i], i)), n)
