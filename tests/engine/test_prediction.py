import pytest
from hypothesis import given
from hypothesis import strategies as st

from afterword.engine.prediction import Predicted, Prediction


def along(predicted: list[int], sampled: list[int]) -> Prediction:
    found = Prediction(Predicted(predicted))
    for token in sampled:
        found.take(token)
    return found


@pytest.mark.parametrize(
    ("sampled", "n_accepted", "expected"),
    [
        pytest.param([], 0, [1, 2, 3, 4, 5, 6, 7, 8], id="nothing yet"),
        pytest.param([1, 2, 3], 3, [4, 5, 6, 7, 8], id="as predicted"),
        pytest.param([1, 2, 3, 4, 5, 6, 7, 8], 8, [], id="all of it"),
        pytest.param([1, 2, 9], 2, [], id="it has left"),
        pytest.param([1, 2, 9, 4, 5], 2, [], id="not back yet"),
        pytest.param([1, 2, 9, 4, 5, 6], 5, [7, 8], id="back after another token"),
        pytest.param([1, 2, 4, 5, 6], 5, [7, 8], id="back after one was left out"),
        pytest.param([1, 2, 9, 9, 9, 3, 4, 5], 5, [6, 7, 8], id="back after others were put in"),
        pytest.param([1, 2, 3, 4, 9, 1, 2, 3], 4, [], id="what was passed is passed"),
        pytest.param([1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3], 8, [], id="behind its end"),
    ],
)
def test_a_completion_is_followed_along_its_prediction(
    sampled: list[int], n_accepted: int, expected: list[int]
) -> None:
    found = along([1, 2, 3, 4, 5, 6, 7, 8], sampled)
    assert (found.n_accepted, list(found.expected(9))) == (n_accepted, expected)
    assert found.n_rejected == 8 - n_accepted


@given(st.lists(st.integers(0, 3), max_size=30), st.lists(st.integers(0, 3), max_size=60))
def test_no_token_is_accepted_twice(predicted: list[int], sampled: list[int]) -> None:
    found = along(predicted, sampled)
    assert 0 <= found.n_accepted <= min(len(predicted), len(sampled))


def test_a_fork_goes_its_own_way() -> None:
    first = along([1, 2, 3], [1])
    second = first.fork()
    first.take(2)
    second.take(9)
    assert (first.n_accepted, second.n_accepted) == (2, 1)
    assert (list(first.expected(9)), list(second.expected(9))) == ([3], [])
