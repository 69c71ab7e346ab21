import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.engine.llama.desk import Desk, ask, words
from tests.engine.llama.fake_runner import COMPANY, FakeRunner

from afterword.engine.llama.gaps import close_gap
from afterword.engine.llama.kv import KVSlots, Placement
from afterword.engine.llama.sequence import Sequence

N_SLOTS = 12


class Row:
    """Sequences of 40 tokens on chosen slots."""

    def __init__(self, ids: list[int], *, max_tokens: int = 100, n_kept: int = 0) -> None:
        self.kv = KVSlots(N_SLOTS, 300)
        self.runner = FakeRunner(N_SLOTS)
        self.moves: list[tuple[int, int]] = []
        for number in range(N_SLOTS):
            if number in ids or number < n_kept:
                self._fill(number)
        self.sequences = [self._sequence(number, max_tokens) for number in ids]
        for slot in self.kv:
            if slot.running and slot.id not in ids:
                self.kv.close(slot)

    def _fill(self, number: int) -> None:
        slot = self.kv.slot(number)
        self.kv.open(Placement(slot, 0, None))
        self.kv.append(slot, words(40, number % 8), exact=True)
        for token in words(40, number % 8):
            self.runner.cells[number].append(token, COMPANY)

    def _sequence(self, number: int, max_tokens: int) -> Sequence:
        group, _ = Desk(1).add(ask(words(40, number % 8), max_tokens=max_tokens))
        (sequence,) = group.sequences
        sequence.slot, sequence.n_computed = self.kv.slot(number), 40
        return sequence

    @property
    def ids(self) -> list[int]:
        return sorted(s.slot_id for s in self.sequences)

    def close(self) -> list[int]:
        before = self.ids
        close_gap(self.kv, self.runner, self.sequences)
        self.kv.check_invariants()
        self.runner.check_books(self.kv)
        self.moves += zip(set(before) - set(self.ids), set(self.ids) - set(before), strict=True)
        return self.ids


def n_runs(ids: list[int]) -> int:
    return sum(number - 1 not in ids for number in ids)


@pytest.mark.parametrize(
    ("ids", "after"),
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
def test_one_move_a_step(ids: list[int], after: list[int]) -> None:
    assert Row(ids).close() == after


@settings(max_examples=60, deadline=None)
@given(st.sets(st.integers(0, N_SLOTS - 1)), st.integers(0, N_SLOTS))
def test_repeated_moves_end_with_one_run(ids: set[int], n_kept: int) -> None:
    row = Row(sorted(ids), n_kept=n_kept)
    runs = n_runs(row.ids)
    for _ in range(len(ids)):
        assert n_runs(row.close()) <= runs
        runs = n_runs(row.ids)
    assert runs <= 1
    n_moves = len(row.moves)
    assert all(target < source for source, target in row.moves)
    row.close()
    assert len(row.moves) == n_moves


@pytest.mark.parametrize(
    ("max_tokens", "after"),
    [
        pytest.param(4, [0, 1], id="four-steps-left"),
        pytest.param(3, [0, 2], id="about-to-end"),
        pytest.param(0, [0, 2], id="nothing-to-sample"),
    ],
)
def test_who_is_about_to_end_stays(max_tokens: int, after: list[int]) -> None:
    assert Row([0, 2], max_tokens=max_tokens).close() == after


def test_a_longer_sequence_needs_more_steps_to_be_worth_a_move() -> None:
    for max_tokens, after in ((5, [0, 1]), (4, [0, 2])):
        row = Row([0, 2], max_tokens=max_tokens)
        slot = row.kv.slot(2)
        row.kv.append(slot, [1] * 220, exact=True)
        for _ in range(220):
            row.runner.cells[2].append(1, COMPANY)
        assert row.close() == after


def test_kept_tokens_of_a_hole_change_places_with_the_sequence() -> None:
    row = Row([0, 2], n_kept=3)
    kept, moved = row.runner.cells[1].tokens, row.runner.cells[2].tokens
    assert row.close() == [0, 1]
    assert (row.runner.cells[1].tokens, row.runner.cells[2].tokens) == (moved, kept)
    assert (row.kv.slot(1).running, row.kv.slot(2).running) == (True, False)
    assert row.kv.slot(2).n == 40
