"""Admission to slots, in turn (line.py) with one exception, and reuse of what a slot has of the prompt already.

A sequence whose prompt shares a long prefix with one that is being computed waits for that instead of computing it
again; others are admitted meanwhile, which delays it by nothing. So `n`, `best_of` and requests that arrive
together compute a shared prompt once. Engine thread only; no model.
"""

from collections import Counter
from itertools import islice

from afterword.engine.line import Line
from afterword.engine.llama.checkpoints import WORTH_A_CALL, places
from afterword.engine.llama.demand import Kin
from afterword.engine.llama.kv import WORTH_COPYING, KVSlots, common_prefix
from afterword.engine.llama.room import Swap, best_swap
from afterword.engine.llama.runner import Runner
from afterword.engine.llama.sequence import Group, Parked, Sequence, kin_of

SCAN = 64
"""Prompts that a step considers: comparing them takes time while the model idles."""

SCAN_KIN = 256
"""The same of those whose kin they wait for, which is seen without comparing."""

SLOTS_TO_PARKED = 8
"""Tokens that slots have room for, to one that may be parked outside of them."""

WORTH_WAITING = 64
"""Tokens that waiting for another sequence's prefill must save at least."""


class Admission:
    """The sequences that wait, and their way to slots and back."""

    def __init__(self, kv: KVSlots, runner: Runner) -> None:
        self._kv = kv
        self._runner = runner
        self._line: Line[Group] = Line()
        self.n_waiting = 0
        """Sequences without a slot."""
        self._kin: Counter[Kin] = Counter()
        """Those of them that have kin, by `Group.kin`."""
        self._n_parked = 0
        """Tokens of those that made room for others."""
        self._n_states = 0
        """How many those are."""

    def join(self, group: Group) -> None:
        """All candidates of a group wait."""
        group.waiting.extend(group.sequences)
        group.kin = kin_of(group.request)
        self._count(group, len(group.sequences))
        self._line.join(group.claim, group)

    def leave(self, group: Group) -> None:
        """None of a group waits any more."""
        for sequence in group.waiting:
            self._unpark(sequence)
        self._count(group, -len(group.waiting))
        group.waiting.clear()
        self._line.leave(group.claim, group)

    def drop(self, sequence: Sequence) -> None:
        """One of those that wait does no more."""
        group = sequence.group
        self._unpark(sequence)
        group.waiting.remove(sequence)
        self._count(group, -1)
        if not group.waiting:
            self._line.leave(group.claim, group)

    def give_back(self, sequence: Sequence) -> None:
        """The sequence has no use for its slot any more; what it holds stays as prefix cache."""
        assert sequence.slot is not None
        self._kv.close(sequence.slot)
        sequence.slot = None
        self._line.give_back(sequence.group.claim)

    def admit(self, running: list[Sequence]) -> list[Sequence]:
        """Give free slots to those whose turn it is; returns them, in order, for the caller to put into `running`."""
        admitted: list[Sequence] = []
        passed_over: set[Group] = set()
        n_compared = 0
        while self._kv.n_free > 0 and n_compared < SCAN and len(passed_over) < SCAN_KIN:
            group = self._line.next(passed_over)
            if group is None:
                break
            holders = [*running, *admitted]
            entering = group.waiting[0].together
            if self._waits(entering[0], holders):
                passed_over.add(group)
                n_compared += group.kin is None
            elif len(entering) <= self._kv.n_free and self._make_room(entering, holders):
                admitted += [self._enter(group) for _ in entering]
            else:
                # Nobody passes it: shorter ones that come later could keep it waiting for ever.
                break
        return admitted

    def swap(self, running: list[Sequence]) -> Swap | None:
        """Have one of `running` make room for another sequence, if that has a better claim (room.py)."""
        # Of a team no one leaves or enters alone.
        movable = [s for s in running if s.team is None and self._runner.can_be_saved(s.slot_id)]
        for group in islice(self._line.firsts(), SCAN):
            entering = group.waiting[0].together
            leaves = best_swap(group.claim, movable, self._line.held, self._n_room(entering[0]))
            if leaves is None or len(entering) > 1 or self._waits(entering[0], running):
                continue
            others = [sequence for sequence in running if sequence is not leaves]
            if self._n_cells_left(entering, others) >= 0:
                self._park(leaves)
                self._make_room(entering, others)
                return Swap(leaves, self._enter(group))
        return None

    @property
    def n_outside(self) -> int:
        """Tokens that may still be kept outside of the slots."""
        return self._kv.n_cells // SLOTS_TO_PARKED - self._n_parked

    def _n_room(self, enters: Sequence) -> int:
        """Tokens that the one may hold which makes room for another."""
        n_states = self._n_states - (enters.parked is not None)
        if not self._kv.can_cut and n_states >= most_states_parked(self._kv.n_slots):
            return 0
        return self.n_outside

    def _n_cells_left(self, entering: list[Sequence], running: list[Sequence]) -> int:
        """Cells for tokens that are only kept, once those enter beside the others; negative if they have no room."""
        return self._kv.n_cells - sum(each.n_cells for each in (*entering, *running))

    def _make_room(self, entering: list[Sequence], running: list[Sequence]) -> bool:
        """Empty idle slots until those have their cells; False, with none emptied, if the others need too many."""
        n_left, sequence = self._n_cells_left(entering, running), entering[0]
        if n_left < 0 or not self._kv.shared_out:
            return n_left >= 0
        while True:
            reuse = None if sequence.parked is not None else self._kv.best_reuse(sequence.demand)
            idle = self._kv.idle(None if reuse is None else reuse.slot)
            # What the sequence finds in its own slot is among its cells.
            placement = self._kv.place(reuse)
            own = None if placement is None else placement.slot
            if sum(slot.n for slot in idle if slot is not own) <= n_left:
                return True
            emptied = next(slot for slot in idle if slot is not own)
            emptied.cut(0)
            self._runner.truncate(emptied.id, 0)

    def _enter(self, group: Group) -> Sequence:
        """Give a slot to the group's next sequence."""
        sequence = group.waiting.popleft()
        self._count(group, -1)
        self._line.take(group.claim)
        if not group.waiting:
            self._line.leave(group.claim, group)
        if sequence.parked is None:
            self._give_slot(sequence)
        else:
            self._go_on(sequence, sequence.parked)
        sequence.n_entered = sequence.n_computed
        return sequence

    def _park(self, sequence: Sequence) -> None:
        """Have a running sequence wait, with what it has computed."""
        assert sequence.slot is not None
        books = self._kv.books(sequence.slot)
        sequence.parked = Parked(books, self._runner.save(sequence.slot.id))
        self._n_parked += len(books.tokens)
        self._n_states += 1
        self.give_back(sequence)
        sequence.group.waiting.appendleft(sequence)
        self._count(sequence.group, 1)
        self._line.rejoin(sequence.group.claim, sequence.group)

    def _unpark(self, sequence: Sequence) -> None:
        if sequence.parked is not None:
            self._n_parked -= len(sequence.parked.books.tokens)
            self._n_states -= 1
            sequence.parked = None

    def _go_on(self, sequence: Sequence, parked: Parked) -> None:
        """Give a sequence that has made room a slot with all that it had."""
        slot = self._kv.reopen(parked.books)
        assert slot is not None, "a slot is free"
        self._runner.load(slot.id, parked.saved)
        sequence.slot, sequence.went_on = slot, True
        self._unpark(sequence)

    def _waits(self, sequence: Sequence, running: list[Sequence]) -> bool:
        """Whether the sequence waits for a prefix that another one is computing."""
        if sequence.parked is not None:
            return False
        if sequence.group.kin is not None:
            return self._waits_for_kin(sequence.group.kin, sequence, running)
        other = sequence.waits_for
        if other is not None:
            if other.slot is not None and other.prefilling and other.n_computed < sequence.waits_until:
                return True
            sequence.waits_for = None
        leader = sequence.group.leader
        if leader is None and sequence is not sequence.group.sequences[0]:
            # The first candidate is admitted first: it alone is scored, so no other may finish the prompt before it.
            return True
        if leader is not None and any(each.prefilling for each in leader.together):
            # The common case of n and best_of, without comparing prompts.
            return leader.scored or sequence.n_prompt >= WORTH_COPYING
        return self._find_prefix(sequence, running)

    def _waits_for_kin(self, kin: Kin, sequence: Sequence, running: list[Sequence]) -> bool:
        """Whether a prompt waits for its context, or for a slot with it rather than one that others' contexts are in.

        So many contexts are read at once, each in a slot, in which its endings follow each other without a copy.
        """
        if not running or any(slot.free_of(kin) for slot in self._kv):
            return False
        n_context = sequence.demand.score_from
        together = [other for other in running if other.group.kin == kin]
        for other in together:
            if other.n_computed < n_context and not self._kv.can_cut:
                other.places.add(n_context)
        if any(other.n_computed < n_context or n_context < WORTH_COPYING for other in together):
            return True
        wanted = self._wanted_by(kin)
        return all(slot.running or slot.id in wanted for slot in self._kv)

    def _wanted_by(self, kin: Kin | None) -> set[int]:
        """Ids of the slots with a context for which prompts of the same request wait."""
        if kin is None:
            return set()
        return {s.id for s in self._kv if s.kin is not None and s.kin[0] == kin[0] and s.kin in self._kin}

    def _count(self, group: Group, n: int) -> None:
        """So many sequences more of a group wait."""
        self.n_waiting += n
        if group.kin is not None:
            self._kin[group.kin] += n
            if self._kin[group.kin] == 0:
                del self._kin[group.kin]

    def _find_prefix(self, sequence: Sequence, running: list[Sequence]) -> bool:
        """Have the sequence wait for the running one that will save it most; whether there is one."""
        prefilling = [other for other in running if other.prefilling]
        if not prefilling:
            return False
        reuse = self._kv.best_reuse(sequence.demand)
        best = 0 if reuse is None else reuse.n
        for other in prefilling:
            n = _n_reusable(other, sequence)
            if n > other.n_computed and n >= best + WORTH_WAITING:
                sequence.waits_for, sequence.waits_until = other, n
                best = n
        if sequence.waits_for is not None and not self._kv.can_cut:
            sequence.waits_for.places.add(sequence.waits_until)
        return sequence.waits_for is not None

    def _give_slot(self, sequence: Sequence) -> None:
        """Give the sequence a slot with as much of its prompt as can be reused."""
        group = sequence.group
        n_shared = 0 if self._kv.can_cut else self._kv.n_shared(sequence.demand)
        # One that rests will get a copy.
        reuse = None if sequence.rests else self._kv.best_reuse(sequence.demand)
        placement = self._kv.place(reuse, group.kin, self._wanted_by(group.kin))
        assert placement is not None, "a slot is free"
        if placement.copy_from is not None:
            self._runner.copy(placement.copy_from.id, placement.slot.id, placement.n_reused, placement.state)
        else:
            self._runner.truncate(placement.slot.id, placement.n_reused, placement.state)
        self._kv.open(placement)
        sequence.slot = placement.slot
        placement.slot.kin = group.kin
        sequence.n_computed = sequence.n_reused = placement.n_reused
        if group.leader is None:
            group.leader = sequence
        if not self._kv.can_cut and not sequence.rests:
            self._keep_states(sequence, n_shared)

    def _keep_states(self, sequence: Sequence, n_shared: int) -> None:
        """Choose where the sequence's state shall be kept, its beginning included if an earlier one ended there."""
        assert sequence.slot is not None
        if self._kv.n_behind(sequence.slot) >= WORTH_A_CALL:
            self._kv.keep(sequence.slot, self._runner.state(sequence.slot.id))
        # Only where the first candidate is do others begin. Beams begin where its prompt has ended.
        leader, request = sequence.group.leader, sequence.group.request
        leads = leader is not None and sequence in leader.together and request.beams is None
        n_candidates = request.n_candidates if leads else 1
        sequence.places |= places(
            sequence.n_prompt, sequence.n_reused, n_shared, scored=sequence.scored, n_candidates=n_candidates
        )


def most_states_parked(n_slots: int) -> int:
    """Sequences that may be parked at once where each has a state, however few tokens it has."""
    return 3 + n_slots


def _n_reusable(other: Sequence, sequence: Sequence) -> int:
    """Tokens that `sequence` could reuse once `other` has processed its prompt."""
    assert other.slot is not None
    demand, slot = sequence.demand, other.slot
    n_common = common_prefix(other.demand.prompt, demand.prompt)
    n = min(n_common, sequence.n_prompt - 1)
    # What follows a sampled token in that slot was not computed as a prompt's, so a seeded request may not reuse it.
    if demand.reproducible and slot.n_exact < slot.n:
        n = min(n, slot.n_exact)
    return max(demand.n_covered_by(other.demand, n, n_common), 0)
