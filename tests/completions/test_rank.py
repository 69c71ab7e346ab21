from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from afterword.completions.rank import as_found, best_first
from afterword.engine.events import Finished


def ranked(*sums_and_counts: tuple[float, int]) -> list[int]:
    candidates = [Finished(i, "stop", n, total, n) for i, (total, n) in enumerate(sums_and_counts)]
    return [candidate.index for candidate in best_first(candidates)]


@pytest.mark.parametrize(
    ("candidates", "order"),
    [
        ([(-2.0, 1), (-1.0, 1)], [1, 0]),
        ([(-3.0, 1), (-4.0, 4)], [1, 0]),
        ([(-1.0, 1), (-2.0, 2), (-0.5, 1)], [2, 0, 1]),
        ([(0.0, 0), (-9.0, 1)], [1, 0]),
        ([(0.0, 0), (0.0, 0), (-1.0, 1)], [2, 0, 1]),
        ([(0.0, 1), (-0.0, 1)], [0, 1]),
    ],
    ids=["higher-first", "mean-not-sum", "ties-in-order", "unscored-last", "unscored-in-order", "signed-zero"],
)
def test_best_mean_first(candidates: list[tuple[float, int]], order: list[int]) -> None:
    assert ranked(*candidates) == order


@given(st.lists(st.tuples(st.floats(-1e6, 0), st.integers(1, 20)), min_size=1, max_size=8), st.randoms())
def test_the_order_of_finishing_does_not_matter(candidates: list[tuple[float, int]], random: Random) -> None:
    finished = [Finished(i, "stop", n, total, n) for i, (total, n) in enumerate(candidates)]
    shuffled = finished.copy()
    random.shuffle(shuffled)
    assert best_first(shuffled) == best_first(finished)


def test_what_the_content_filter_has_cut_comes_last() -> None:
    cut, unscored = Finished(0, "content_filter", 1, -0.1, 1), Finished(1, "stop", 0, 0.0, 0)
    assert best_first([cut, unscored]) == [unscored, cut]


def test_a_search_has_ranked_its_candidates() -> None:
    ended = [Finished(1, "stop", 1, -1.0, 1), Finished(2, "stop", 1, -0.1, 1), Finished(0, "content_filter", 1, 0.0, 1)]
    assert [candidate.index for candidate in as_found(ended)] == [1, 2, 0]
