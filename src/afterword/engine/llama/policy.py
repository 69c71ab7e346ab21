"""What is computed next: one pure function from the running sequences to the next batch.

Steps that extend prompts and steps that sample take turns, so nobody's next token waits for more than one piece of
somebody's prompt. So do the oldest prompt and one of the shortest, so neither waits for the end of the other.

Which rows a batch then has, and in which order they go, is not decided here (arithmetic.py).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from afterword.engine.llama.arithmetic import MICRO_BATCH, Arithmetic, distance

SHARED_BUDGETS = (64, MICRO_BATCH)
"""Least and most prompt tokens in a step that delays somebody's next token. Fewer rows than 64 cost more each."""

PER_DELAYED = 1.5
"""Prompt tokens that take as long as one sampled token: what a step may have for each sequence it delays, so that
nobody waits for much more than twice as long as without prompts."""

HARDLY_LONGER = 2
"""Of prompts that are up to this many times as long as the shortest, the one leads whose slot is nearest to those that
sample: sequences that begin to sample here and there make each step longer until the prompts between them are read."""

STRETCH = 1.25
"""How much longer a call may become to finish prompts that are a little longer than the one that leads."""


class Running(Protocol):
    """What a policy sees of a sequence that holds a slot."""

    @property
    def slot_id(self) -> int:
        """The slot that it holds."""
        ...

    @property
    def n_pending(self) -> int:
        """Tokens it has but its slot has not, at least one; if it samples exactly one, unless a row is as good as
        several."""
        ...

    @property
    def n_next(self) -> int:
        """Those of them that a piece may have at most."""
        ...

    @property
    def prefilling(self) -> bool:
        """Whether part of its prompt is still to be computed; if not, it samples."""
        ...

    @property
    def n_room(self) -> int:
        """Rows that its slot has room for: more than `n_pending`."""
        ...


@dataclass(frozen=True, slots=True)
class Turns:
    """Who had the last turn."""

    prompts_went_last: bool = False
    oldest_led: bool = False
    """Of the prompts."""


@dataclass(frozen=True, slots=True)
class Piece:
    """The next n tokens of the sequence in a slot."""

    slot: int
    n: int


@dataclass(frozen=True, slots=True)
class Batch:
    """What the next call computes."""

    pieces: tuple[Piece, ...]
    turns: Turns
    """What the next decision is told."""


Policy = Callable[[Sequence[Running], Turns, Arithmetic], Batch]
"""From the running sequences, in the order in which they came, to the next batch.

It has a piece if anybody runs; pieces of distinct slots, none longer than `n_next`. Their rows
(`Arithmetic.rows`) are at most `MICRO_BATCH` together, and no more than each slot has room for. Unless one row is as
good as several (`rows_needed`), pieces of prompts and of sampling sequences are not in the same batch; with
`prompts_alone` nothing is beside a piece of several tokens. Whatever fits that, tokens have the same numbers; a
sequence that is left out for ever waits for ever.
"""


def next_batch(running: Sequence[Running], turns: Turns, arithmetic: Arithmetic) -> Batch:
    """The `Policy` in use: all next tokens at once, or a piece of some prompts."""
    sampling = [s for s in running if _has_one_row(s, arithmetic)]
    prompts = [s for s in running if not _has_one_row(s, arithmetic)]
    if not prompts or (sampling and turns.prompts_went_last):
        return Batch(_sampled(sampling, arithmetic), Turns(False, turns.oldest_led))
    oldest_leads = not turns.oldest_led
    lead = prompts[0] if oldest_leads else _quickest(prompts, sampling)
    others = [] if arithmetic.prompts_alone else [s for s in prompts if s is not lead]
    return Batch(_pieces(lead, others, _budget(len(sampling)), arithmetic), Turns(True, oldest_leads))


def _sampled(sampling: Sequence[Running], arithmetic: Arithmetic) -> tuple[Piece, ...]:
    """All next tokens; of a sequence that has several to compute, as many as have the same numbers then."""
    pieces: list[Piece] = []
    n_more = MICRO_BATCH - len(sampling)
    for sequence in sampling:
        n = min(sequence.n_next, 1 + n_more) if arithmetic.sampled_equals_prompt else 1
        n_more -= n - 1
        pieces.append(Piece(sequence.slot_id, n))
    return tuple(pieces)


def _has_one_row(sequence: Running, arithmetic: Arithmetic) -> bool:
    """Whether a sequence goes with those that sample: the last token of a prompt costs no more there, if it may."""
    return not sequence.prefilling or (arithmetic.rows_needed == 1 and sequence.n_pending == 1)


def _quickest(prompts: Sequence[Running], sampling: Sequence[Running]) -> Running:
    """One of the shortest prompts: the one nearest to slots that sample, or to where they will begin."""
    most = HARDLY_LONGER * min(s.n_pending for s in prompts)
    places = [s.slot_id for s in sampling] or [0]
    return min((s for s in prompts if s.n_pending <= most), key=lambda s: (distance(s.slot_id, places), s.n_pending))


def _budget(n_delayed: int) -> int:
    """Prompt tokens of a step that so many sequences wait for."""
    least, most = SHARED_BUDGETS
    return min(max(least, int(PER_DELAYED * n_delayed)), most) if n_delayed > 0 else MICRO_BATCH


def _pieces(lead: Running, others: Sequence[Running], budget: int, arithmetic: Arithmetic) -> tuple[Piece, ...]:
    """As much of one prompt as the budget allows, beside pieces of others that are about as long.

    Much shorter ones would mostly be filled up. Where nothing is, what a piece has more than others is computed apart:
    ten prompts of 20 to 29 tokens took 17 % longer than as many of 25, two of 117 and 125 no longer than equal ones.
    """
    n = max(arithmetic.rows_needed, min(lead.n_next, budget))
    chosen, most = [lead], STRETCH * n
    for other in others:
        longer = other.n_next if n < other.n_next <= most else n
        fits = (len(chosen) + 1) * longer <= budget and 2 * other.n_next >= longer
        if fits and all(arithmetic.rows(min(s.n_next, longer), longer) <= s.n_room for s in [*chosen, other]):
            chosen.append(other)
            n = longer
    return tuple(Piece(s.slot_id, min(s.n_next, n)) for s in chosen)
