import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from afterword.engine.sampling.largest import in_order, largest

INF = float("inf")


def by_full_sort(row: list[float], k: int) -> list[int]:
    return sorted(range(len(row)), key=lambda i: (-row[i], i))[:k]


def shuffled(values: list[float]) -> st.SearchStrategy[tuple[list[float], list[int]]]:
    return st.tuples(st.just(values), st.permutations(range(len(values))))


@pytest.mark.parametrize(
    ("row", "k", "expected"),
    [
        pytest.param([1.0, 3.0, 2.0], 2, [1, 2], id="largest_first"),
        pytest.param([1.0, 2.0, 2.0, 2.0], 2, [1, 2], id="ties_at_the_boundary_by_lowest_id"),
        pytest.param([2.0, 1.0], 0, [], id="none_wanted"),
        pytest.param([2.0, 1.0], 9, [0, 1], id="more_wanted_than_there_are"),
        pytest.param([5.0], 1, [0], id="one_value"),
        pytest.param([-INF, -INF, 0.0], 3, [2, 0, 1], id="minus_infinity_last"),
        pytest.param([0.0, -0.0, 0.0, -0.0], 4, [0, 1, 2, 3], id="signed_zeros_are_equal"),
        pytest.param([-1e-45, 0.0, 1e-45], 3, [2, 1, 0], id="smallest_numbers"),
    ],
)
def test_largest_first_and_lowest_id_on_ties(row: list[float], k: int, expected: list[int]) -> None:
    assert largest(np.array(row, dtype=np.float32), k).tolist() == expected


@given(
    n=st.integers(1, 700),
    k=st.integers(0, 720),
    levels=st.sampled_from([1, 2, 5, 50, 100_000]),
    seed=st.integers(0, 10_000),
)
def test_largest_is_the_head_of_a_full_sort(n: int, k: int, levels: int, seed: int) -> None:
    row = np.random.default_rng(seed).integers(-levels, levels, n).astype(np.float32)
    assert largest(row, k).tolist() == by_full_sort(row.tolist(), k)


def test_all_equal_values_of_a_whole_vocabulary_give_the_lowest_ids() -> None:
    assert largest(np.full(49_152, -2.5, dtype=np.float32), 5).tolist() == [0, 1, 2, 3, 4]


def test_values_after_the_last_full_block_are_seen() -> None:
    row = np.zeros(64 * 20 + 1, dtype=np.float32)
    row[-1] = 1.0
    assert largest(row, 2).tolist() == [64 * 20, 0]


@given(st.lists(st.floats(width=32, allow_nan=False), max_size=60).flatmap(shuffled))
def test_in_order_does_not_depend_on_the_order_given(case: tuple[list[float], list[int]]) -> None:
    values, ids = case
    ordered = in_order(np.array(values, dtype=np.float32)[ids], np.array(ids, dtype=np.intp))
    assert ordered.tolist() == by_full_sort(values, len(values))
