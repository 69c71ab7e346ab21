"""Admission to slots, in order of arrival with one exception, and reuse of what a slot has of the prompt already.

A sequence whose prompt shares a long prefix with one that is being computed waits for that instead of computing it
again; later ones are admitted meanwhile, which delays it by nothing. So `n`, `best_of` and requests that arrive
together compute a shared prompt once. Engine thread only; no model.
"""

from afterword.engine.llama.kv import WORTH_COPYING, KVSlots, common_prefix
from afterword.engine.llama.runner import Runner
from afterword.engine.llama.sequence import Sequence

SCAN = 64
"""Waiting sequences that a step considers: comparing prompts takes time while the model idles."""

WORTH_WAITING = 64
"""Tokens that waiting for another sequence's prefill must save at least."""


class Admission:
    """Moves sequences from the queue to slots. Owns neither list."""

    def __init__(self, kv: KVSlots, runner: Runner) -> None:
        self._kv = kv
        self._runner = runner

    def admit(self, waiting: list[Sequence], running: list[Sequence]) -> list[Sequence]:
        """Give slots to sequences of `waiting`; returns those, in order, for the caller to move to `running`."""
        admitted: list[Sequence] = []
        for sequence in waiting[:SCAN]:
            if self._kv.n_free == 0:
                break
            if not self._waits(sequence, [*running, *admitted]):
                self._give_slot(sequence)
                admitted.append(sequence)
        return admitted

    def _waits(self, sequence: Sequence, running: list[Sequence]) -> bool:
        """Whether the sequence waits for a prefix that another one is computing."""
        other = sequence.waits_for
        if other is not None:
            if other.slot is not None and other.prefilling and other.n_computed < sequence.waits_until:
                return True
            sequence.waits_for = None
        leader = sequence.group.leader
        if leader is None and sequence is not sequence.group.sequences[0]:
            # The first candidate is admitted first: it alone is scored, so no other may finish the prompt before it.
            return True
        if leader is not None and leader.slot is not None and leader.prefilling:
            # The common case of n and best_of, without comparing prompts.
            return leader.scored or sequence.n_prompt >= WORTH_COPYING
        return self._find_prefix(sequence, running)

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
        return sequence.waits_for is not None

    def _give_slot(self, sequence: Sequence) -> None:
        """Give the sequence a slot with as much of its prompt as can be reused."""
        group = sequence.group
        placement = self._kv.place(self._kv.best_reuse(sequence.demand))
        assert placement is not None, "a slot is free"
        if placement.copy_from is not None:
            self._runner.copy(placement.copy_from.id, placement.slot.id, placement.n_reused)
        else:
            self._runner.truncate(placement.slot.id, placement.n_reused)
        self._kv.open(placement)
        sequence.slot = placement.slot
        sequence.n_computed = sequence.n_reused = placement.n_reused
        if group.leader is None:
            group.leader = sequence


def _n_reusable(other: Sequence, sequence: Sequence) -> int:
    """Tokens that `sequence` could reuse once `other` has processed its prompt."""
    assert other.slot is not None
    demand, slot = sequence.demand, other.slot
    n_common = common_prefix(other.demand.prompt, demand.prompt)
    n = min(n_common, sequence.n_prompt - 1)
    # What follows a sampled token in that slot was not computed as a prompt's, so a seeded request may not reuse it.
    if demand.reproducible and slot.n_exact < slot.n:
        n = min(n, slot.n_exact)
    if demand.score_top is not None:
        covered = other.demand.score_top is not None and other.demand.score_top >= demand.score_top
        n = min(n, n_common - 1) if covered else 0
    return max(n, 0)
