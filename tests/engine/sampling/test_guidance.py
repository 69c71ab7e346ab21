import numpy as np
import pytest
from numpy.typing import NDArray

from afterword.engine.sampling.guidance import guided
from afterword.engine.sampling.logprobs import LogSoftmax, NoDistribution

N_VOCAB = 500


def rows(number: int) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    row, negative = 4 * np.random.default_rng(number).standard_normal((2, N_VOCAB), dtype=np.float32)
    return row, negative


def log_softmax(row: NDArray[np.float32]) -> NDArray[np.float64]:
    exact = row.astype(np.float64)
    found: NDArray[np.float64] = exact - np.log(np.exp(exact).sum())
    return found


@pytest.mark.parametrize("scale", [0.0, 0.5, 1.5, 7.0])
def test_log_probabilities_move_away_from_the_negative_ones(scale: float) -> None:
    for number in range(5):
        row, negative = rows(number)
        wanted, unwanted = log_softmax(row), log_softmax(negative)
        found = guided(row, negative, scale, LogSoftmax(N_VOCAB))
        assert np.allclose(found, scale * (wanted - unwanted) + unwanted, atol=1e-3)


def test_the_scale_of_one_and_the_same_prompt_change_nothing() -> None:
    row, negative = rows(1)
    for found in (guided(row, negative, 1.0, LogSoftmax(N_VOCAB)), guided(row, row, 3.0, LogSoftmax(N_VOCAB))):
        assert np.allclose(found, log_softmax(row), atol=1e-4)


def test_what_the_model_rules_out_stays_ruled_out() -> None:
    row, negative = rows(2)
    row[[3, 4]] = -np.inf
    negative[[4, 5]] = -np.inf
    found = guided(row, negative, 2.0, LogSoftmax(N_VOCAB))
    assert np.isneginf(found[[3, 4]]).all()
    assert np.isfinite(np.delete(found, [3, 4])).all()
    assert found.argmax() == 5


def test_rows_that_are_none_are_refused() -> None:
    row, negative = rows(3)
    negative[7] = np.nan
    with pytest.raises(NoDistribution):
        guided(row, negative, 2.0, LogSoftmax(N_VOCAB))
