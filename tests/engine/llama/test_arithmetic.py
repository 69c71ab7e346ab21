from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.engine.llama.fake_context import micro_batches

from afterword.engine.llama.arithmetic import (
    FLOATS,
    INDEPENDENT,
    MICRO_BATCH,
    QUANTISED,
    Arithmetic,
    Move,
    Rows,
    best_move,
    distance,
    is_worth_moving,
    lay_out,
    runs,
)

N_SLOTS = 12
HELD = 20
"""Tokens that each slot holds."""


def piece(slot: int, n: int) -> Rows:
    """n tokens of a prompt, the logits after the last of which are wanted."""
    return Rows(slot, HELD, list(range(n)), [0] * (n - 1) + [1], of_prompt=True)


def sampled(slot: int) -> Rows:
    return Rows(slot, HELD, [7], [1], of_prompt=False)


def shape(pieces: list[Rows], arithmetic: Arithmetic) -> list[tuple[int, int, int]]:
    """(slot, rows, rows that stay) of a call."""
    rows = lay_out(pieces, arithmetic, lambda slot: HELD)
    assert all(len(each.tokens) == len(each.outputs) for each in rows)
    assert all(each.start == HELD for each in rows)
    return [(each.slot, len(each.tokens), each.n_kept) for each in rows]


@pytest.mark.parametrize("arithmetic", [QUANTISED, FLOATS])
def test_pieces_of_prompts_are_filled_up_to_the_longest_and_to_two_rows(arithmetic: Arithmetic) -> None:
    assert shape([piece(4, 1)], arithmetic) == [(4, 2, 1)]
    assert shape([piece(5, 3), piece(2, 5), piece(3, 1)], arithmetic) == [(2, 5, 5), (3, 5, 1), (5, 5, 3)]


def test_sampled_tokens_go_alone_and_with_floats_beside_another() -> None:
    pieces = [sampled(slot) for slot in (7, 2, 3)]
    assert shape(pieces, QUANTISED) == [(2, 1, 1), (3, 1, 1), (7, 1, 1)]
    assert shape(pieces, FLOATS) == [(2, 1, 1), (3, 1, 1), (7, 1, 1), (8, 1, 0)]


def test_independent_rows_go_as_they_are() -> None:
    assert shape([piece(5, 3), sampled(4), piece(2, 1), sampled(9)], INDEPENDENT) == [
        (2, 1, 1),
        (4, 1, 1),
        (5, 3, 3),
        (9, 1, 1),
    ]


@pytest.mark.parametrize("arithmetic", [QUANTISED, FLOATS])
def test_what_would_cut_a_piece_of_a_prompt_is_refused(arithmetic: Arithmetic) -> None:
    with pytest.raises(AssertionError, match="would cut the pieces"):
        shape([piece(2, 5), sampled(3)], arithmetic)


def test_more_rows_than_a_micro_batch_are_refused() -> None:
    with pytest.raises(AssertionError):
        shape([piece(0, MICRO_BATCH - 1), piece(1, 2)], INDEPENDENT)


@pytest.mark.parametrize("arithmetic", [QUANTISED, FLOATS, INDEPENDENT])
def test_rows_of_a_piece_are_told_as_they_will_be(arithmetic: Arithmetic) -> None:
    for lengths in ([1], [2], [5, 3, 5], [1, 1], [9, 1]):
        told = [arithmetic.rows(n, max(lengths)) for n in lengths]
        pieces = [piece(slot, n) for slot, n in enumerate(lengths)]
        assert [rows for _, rows, _ in shape(pieces, arithmetic)] == told


def slots_of(pieces: list[Rows]) -> list[int]:
    """The slot of each row of a call."""
    return [each.slot for each in pieces for _ in each.tokens]


@given(
    st.sets(st.integers(0, N_SLOTS - 1), min_size=1),
    st.lists(st.integers(1, 20), min_size=N_SLOTS, max_size=N_SLOTS),
    st.booleans(),
    st.sampled_from([QUANTISED, FLOATS]),
)
def test_every_row_is_among_as_many_as_its_kind_should_be(
    slots: set[int], lengths: list[int], of_prompts: bool, arithmetic: Arithmetic
) -> None:
    pieces = [piece(slot, lengths[slot]) if of_prompts else sampled(slot) for slot in slots]
    rows = lay_out(pieces, arithmetic, lambda slot: HELD)
    of_rows = slots_of(rows)
    outputs = [output for each in rows for output in each.outputs]
    for batch in micro_batches(of_rows):
        in_batch = [of_rows[row] for row in batch]
        assert all((in_batch.count(slot) > 1) == of_prompts for slot in in_batch)
        if arithmetic is FLOATS:
            assert len(batch) > 1
            assert sum(outputs[row] for row in batch) > 1
    # And no slot is computed in more micro-batches than its run.
    assert len(micro_batches(of_rows)) == len(runs(sorted(set(of_rows))))


@pytest.mark.parametrize(
    ("running", "after"),
    [
        pytest.param([], [], id="nobody"),
        pytest.param([7], [7], id="one-alone"),
        pytest.param([3, 4, 5], [3, 4, 5], id="one-run"),
        pytest.param([0, 2], [0, 1], id="last-moves-next-to-the-first"),
        pytest.param([0, 1, 3, 4], [0, 1, 2, 3], id="into-the-hole-between-two-runs"),
        pytest.param([2, 9], [1, 2], id="in-front-of-the-first"),
        pytest.param([0, 2, 5], [0, 1, 2], id="one-move-for-two-gaps"),
        pytest.param([0, 5, 6], [0, 1, 5], id="a-longer-run-moves-piece-by-piece"),
        pytest.param([3, 6, 7], [3, 4, 6], id="never-more-runs-than-before"),
    ],
)
def test_best_move(running: list[int], after: list[int]) -> None:
    assert moved(running, best_move(running)) == after


def moved(running: list[int], move: Move | None) -> list[int]:
    return running if move is None else sorted({*running, move.target} - {move.source})


@given(st.sets(st.integers(0, N_SLOTS - 1)))
def test_repeated_moves_end_with_one_run(slots: set[int]) -> None:
    steps = [sorted(slots)]
    while (move := best_move(steps[-1])) is not None:
        assert move.target < move.source
        assert move.target not in steps[-1]
        steps.append(moved(steps[-1], move))
    assert all(len(runs(after)) <= len(runs(before)) for before, after in pairwise(steps))
    assert len(runs(steps[-1])) <= 1
    assert len(steps) <= len(slots) + 1


@pytest.mark.parametrize(("n_moved", "least"), [(0, 4), (255, 4), (256, 5), (3000, 15)])
def test_a_move_pays_for_who_goes_on_for_longer_than_it_takes(n_moved: int, least: int) -> None:
    assert [is_worth_moving(n_moved, steps) for steps in (least - 1, least)] == [False, True]


def test_distance_is_to_the_nearest() -> None:
    assert [distance(slot, [4, 9]) for slot in (0, 4, 6, 7, 12)] == [4, 0, 2, 2, 3]
