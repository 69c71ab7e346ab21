"""Which rows may share a micro-batch, how many, in which order, and why a token's numbers stay the same.

A call has rows, one token at one position of one slot each. llama.cpp computes them in micro-batches: it takes the next
slot that has rows, with those numbered right behind it, and of each as many rows as the shortest has left.

    the call                    its micro-batches, each of which reads all weights

    slot 2   a b c d e          2: a b c   3: f g h
    slot 3   f g h              2: d e
    slot 6   i                  6: i               4 and 5 have no rows, so 6 is computed apart

The kernels of `native/` compute a row the same whatever rows it is among: `INDEPENDENT`. Nothing is added then, and the
order costs only time.

With llama.cpp's own kernels and without flash attention, a row's numbers depend on the tokens before it in its slot,
and on whether its slot has one row in the micro-batch or several. Where matrices are of floats they also depend on
whether the micro-batch has one row in all, or puts out one. They depend on nothing else: not on how many rows, other
slots, the cut of a prompt, or what was cached (ARCHITECTURE.md has the measurements; probe.py checks each model). So
rows are laid out like this:

    pieces of prompts           sampled tokens

    slot 2   a b c d e          slot 2   a
    slot 3   f g h . .          slot 3   b
    slot 6   i . . . .          slot 6   c
                                slot 7   +         only where matrices are of floats

    .   fills a piece up: all have the same number of rows, two at least, so none leaves a single row over
    +   stands beside a row that would be the only one of its micro-batch
        after the call the rows of both kinds are cut off their slots again

Then a prompt's token leaves in its slot what any other prompt with the same beginning would have left, and can be
reused by all. What a sampled token leaves is another thing (`Slot.n_exact`).

The scheduler's policy and the runner ask an `Arithmetic`, and no other file knows. Pure; no model.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

MICRO_BATCH = 256
"""Rows of a call at most, and of a micro-batch. With 512 a row takes 5 to 7 % longer: attention's scores leave the
cache."""

TOKENS_A_STEP = 256
"""Tokens whose move takes about as long as a micro-batch more adds to a step."""

WORTH_STEPS = 4
"""Steps a move must be worth beyond its own cost, so that sequences about to end stay where they are."""


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """What must be so for a token's numbers to depend on nothing but the tokens before it, for one model's kernels."""

    rows_needed: int
    """Rows that a prompt's piece must have in a micro-batch; 1: any number will do."""
    lone_rows_keep_theirs: bool
    """Whether the only row of a micro-batch, or the only one put out, has the numbers that it has among others."""
    sampled_equals_prompt: bool
    """Whether a token that was sampled leaves in its slot what it would have left as part of a prompt."""
    fused_attention: bool
    """Whether attention is one operation: llama.cpp's own depends on how many rows there are, and is slower."""
    prompts_alone: bool = False
    """Whether no other slot may have rows in a call that has several of one slot."""

    @property
    def n_spare_slots(self) -> int:
        """Slots behind the last, so that there is one beside each for the row that a lone row needs."""
        return 0 if self.lone_rows_keep_theirs else 1

    def rows(self, n: int, longest: int) -> int:
        """Rows that a piece of n tokens of a prompt takes in a call whose longest piece has `longest`."""
        return n if self.rows_needed == 1 else max(self.rows_needed, longest)


QUANTISED = Arithmetic(rows_needed=2, lone_rows_keep_theirs=True, sampled_equals_prompt=False, fused_attention=False)
"""llama.cpp's kernels where all matrices are quantised."""

FLOATS = Arithmetic(rows_needed=2, lone_rows_keep_theirs=False, sampled_equals_prompt=False, fused_attention=False)
"""llama.cpp's kernels where matrices are of floats: their product with one row is not computed as with several."""

INDEPENDENT = Arithmetic(rows_needed=1, lone_rows_keep_theirs=True, sampled_equals_prompt=True, fused_attention=True)
"""Kernels whose rows do not depend on each other: no row is added, and what was sampled is reused by all."""

UNFUSED = replace(INDEPENDENT, fused_attention=False)
"""No row is added, and attention is several operations: with the project's kernels for architectures at which llama.cpp
aborts otherwise; with llama.cpp's where memory cannot be cut, so that rows that are added could not be cut off again.
What is not so then the probe finds out."""


@dataclass(slots=True)
class Rows:
    """The rows of one slot in a call."""

    slot: int
    start: int
    """Position of the first row."""
    tokens: list[int]
    outputs: list[int]
    """1 for each row whose logits are put out, else 0."""
    of_prompt: bool
    """Whether they are a piece of a prompt, not sampled."""
    n_kept: int = field(init=False)
    """Rows that stay; those behind them are cut off after the call."""
    unasked: int | None = None
    """The row that is put out only because another should not be the only one."""

    def __post_init__(self) -> None:
        self.n_kept = len(self.tokens)


def lay_out(pieces: Iterable[Rows], arithmetic: Arithmetic, held: Callable[[int], int]) -> list[Rows]:
    """The rows of one call in ascending order, with those that have to be added; changes the pieces.

    `held` tells how many tokens a slot holds, the spare one too.
    """
    rows = sorted(pieces, key=lambda piece: piece.slot)
    if arithmetic.rows_needed > 1:
        _fill_up(rows, arithmetic)
    if not arithmetic.lone_rows_keep_theirs:
        rows = _beside_each_other(rows, held)
    assert sum(len(piece.tokens) for piece in rows) <= MICRO_BATCH
    assert not arithmetic.prompts_alone or len(rows) == 1 or all(len(piece.tokens) == 1 for piece in rows)
    return rows


def _fill_up(rows: Sequence[Rows], arithmetic: Arithmetic) -> None:
    """Rows behind shorter pieces of prompts. Any token does."""
    if not any(piece.of_prompt for piece in rows):
        assert all(len(piece.tokens) == 1 for piece in rows), "sampled tokens go one by one"
        return
    assert all(piece.of_prompt for piece in rows), "a single row would cut the pieces of prompts beside it"
    longest = max(len(piece.tokens) for piece in rows)
    for piece in rows:
        n_more = arithmetic.rows(len(piece.tokens), longest) - len(piece.tokens)
        piece.tokens += piece.tokens[-1:] * n_more
        piece.outputs += [0] * n_more


def _beside_each_other(rows: Sequence[Rows], held: Callable[[int], int]) -> list[Rows]:
    """No micro-batch of a single row, and none that puts out a single row."""
    by_slot = {piece.slot: piece for piece in rows}
    for run in runs(list(by_slot)):
        if len(run) == 1 and len(by_slot[run[0]].tokens) == 1:
            beside = Rows(run[0] + 1, held(run[0] + 1), by_slot[run[0]].tokens[:], [1], of_prompt=False)
            beside.n_kept = 0
            by_slot[beside.slot] = beside
    for run in runs(sorted(by_slot)):
        if sum(sum(by_slot[slot].outputs) for slot in run) == 1:
            spare = next(by_slot[slot] for slot in run if not all(by_slot[slot].outputs))
            spare.unasked = max(i for i, output in enumerate(spare.outputs) if output == 0)
            spare.outputs[spare.unasked] = 1
    return [by_slot[slot] for slot in sorted(by_slot)]


def runs(slots: Sequence[int]) -> list[list[int]]:
    """Ascending slots, cut where a number is missing: each run is computed apart.

    8 sequences of 300 tokens take 69 ms a step in slots 0 to 7, and 132 ms in every second one of 0 to 15.
    """
    found: list[list[int]] = []
    for slot in slots:
        if found and slot == found[-1][-1] + 1:
            found[-1].append(slot)
        else:
            found.append([slot])
    return found


def distance(slot: int, others: Sequence[int]) -> int:
    """How far a slot is from the nearest of others: the nearer it is, the fewer runs there will be."""
    return min(abs(slot - other) for other in others)


@dataclass(frozen=True, slots=True)
class Move:
    """A sequence that changes its slot."""

    source: int
    target: int


def best_move(running: Sequence[int]) -> Move | None:
    """Of ascending slots, the last into the lowest hole that leaves fewer runs; None if there is one run.

    If no single move does, the last run follows the first one, slot by slot.
    """
    before = runs(running)
    if len(before) < 2:
        return None
    source, taken = running[-1], set(running)
    for target in range(before[-1][0]):
        if target not in taken and len(runs(sorted(taken - {source} | {target}))) < len(before):
            return Move(source, target)
    return Move(source, before[0][-1] + 1)


def is_worth_moving(n_moved: int, steps_left: int) -> bool:
    """Whether moving that many tokens, of both slots, pays for a sequence that goes on for so many steps at most.

    A move is a snapshot and a restore, which take about as long as a step.
    """
    return steps_left >= WORTH_STEPS + n_moved // TOKENS_A_STEP
