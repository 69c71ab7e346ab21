"""Which running sequence makes room for one that waits: pure functions.

One that has made room goes on later where it was, to the same bytes. What a swap takes is that of a step or two, so
there are few: one that evens out what parties, or requests of a party, hold (there are as many as there are slots until
it is even), and where one place is all there is between two, one for each quantum.
"""

import math
from collections.abc import Callable
from collections.abc import Sequence as Sequences
from dataclasses import dataclass

from afterword.engine.line import Claim
from afterword.engine.llama.arithmetic import TOKENS_A_STEP
from afterword.engine.llama.sequence import Sequence

QUANTUM = 256
"""Tokens that a sequence computes at least before it makes room for one that would then hold as much as it does now."""

APART = 3
"""A swap is followed by so many times the steps that it took: nobody is delayed by more than a third."""


@dataclass(frozen=True, slots=True)
class Swap:
    """A slot that has another sequence now."""

    left: Sequence
    entered: Sequence

    @property
    def n_steps(self) -> int:
        """Steps before the next one."""
        return APART * (1 + self.left.n_computed // TOKENS_A_STEP)


def best_swap(
    claim: Claim, running: Sequences[Sequence], held: Callable[[Claim], tuple[int, int]], n_room: int
) -> Sequence | None:
    """The running sequence that should make room for one with `claim`; None if none should.

    `running`: in the order in which they got their slots. `held`: slots of a claim's party and of its request.
    `n_room`: tokens that the one which makes room may hold.
    """

    def rank(sequence: Sequence) -> tuple[int, int, int, int]:
        other = sequence.group.claim
        of_party, of_request = held(other)
        # Where a slot goes round, the one that has had its slot longest leaves, whatever that takes: if a cheaper one
        # always left instead, the other requests of its party could wait for ever. Else the cheapest leaves.
        n_tokens = 0 if _lead(claim, other, held) == 1 else sequence.n_computed
        return other.priority, of_party, of_request, -n_tokens

    def is_entitled(sequence: Sequence) -> bool:
        lead = _lead(claim, sequence.group.claim, held)
        return lead > 1 or (lead == 1 and sequence.n_computed - sequence.n_entered >= QUANTUM)

    # Of equals, `max` gives the first.
    return max((s for s in running if s.n_computed <= n_room and is_entitled(s)), key=rank, default=None)


def _lead(claim: Claim, other: Claim, held: Callable[[Claim], tuple[int, int]]) -> float:
    """Slots that the other's party, or within one party its request, has more; infinite where priorities differ."""
    if other.priority != claim.priority:
        return math.inf if other.priority > claim.priority else -math.inf
    level = 0 if other.party != claim.party else 1
    return held(other)[level] - held(claim)[level]
