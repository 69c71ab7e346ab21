import math

import numpy as np
import pytest
from numpy.typing import NDArray

from afterword.engine.sampling.logprobs import LogSoftmax

INF = float("inf")


def frozen(values: object) -> NDArray[np.float32]:
    """A row that raises when somebody writes to it."""
    row = np.array(values, dtype=np.float32)
    row.setflags(write=False)
    return row


def noise(n: int, *, seed: int = 0, scale: float = 4.0) -> NDArray[np.float32]:
    return frozen(np.random.default_rng(seed).standard_normal(n) * scale)


def exact(row: NDArray[np.float32]) -> NDArray[np.float64]:
    """Log-probabilities in float64."""
    wide = row.astype(np.float64)
    logprobs: NDArray[np.float64] = wide - wide.max() - math.log(math.fsum(np.exp(wide - wide.max())))
    return logprobs


@pytest.mark.parametrize("n", [1, 2, 7, 8, 9, 63, 64, 65, 1000, 4099, 49_152])
@pytest.mark.parametrize("scale", [0.01, 4.0, 30.0])
def test_logprobs_agree_with_float64(n: int, scale: float) -> None:
    row = noise(n, seed=n, scale=scale)
    softmax = LogSoftmax(n)
    lse = softmax.lse(row)
    ours = [softmax.logprob(row, lse, token) for token in range(min(n, 500))]
    np.testing.assert_allclose(ours, exact(row)[:500], rtol=0, atol=2e-6)


@pytest.mark.parametrize("n", [1, 64, 1000, 150_000])
def test_equal_logits_are_equally_likely(n: int) -> None:
    assert LogSoftmax(n).lse(frozen(np.full(n, 3.0))) == pytest.approx(3.0 + math.log(n), abs=1e-12)


def test_the_only_token_is_certain() -> None:
    row = frozen([-17.25])
    softmax = LogSoftmax(1)
    assert softmax.top(row, softmax.lse(row), 5) == ((0, 0.0),)


def test_huge_logits_do_not_overflow() -> None:
    row = frozen([3e38, 3e38, -3e38])
    softmax = LogSoftmax(3)
    lse = softmax.lse(row)
    assert softmax.top(row, lse, 3)[2] == (2, -9999.0)
    assert softmax.logprob(row, lse, 0) <= 0.0


def test_minus_infinity_reads_as_the_floor() -> None:
    row = frozen([0.0, -INF, 0.0])
    softmax = LogSoftmax(3)
    lse = softmax.lse(row)
    assert lse == pytest.approx(math.log(2.0), abs=1e-12)
    assert softmax.logprob(row, lse, 1) == -9999.0
    assert softmax.top(row, lse, 3) == ((0, -lse), (2, -lse), (1, -9999.0))


@pytest.mark.parametrize(
    "values",
    [
        pytest.param([0.0, math.nan, 1.0], id="nan"),
        pytest.param([0.0, INF], id="plus_infinity"),
        pytest.param([-INF, -INF], id="all_minus_infinity"),
    ],
)
def test_a_row_that_is_no_distribution_is_refused(values: list[float]) -> None:
    with pytest.raises(ValueError, match="the model's logits have"):
        LogSoftmax(len(values)).lse(frozen(values))


@pytest.mark.parametrize("k", [0, 1, 5, 100, 3000, 5000])
def test_top_is_the_head_of_a_full_sort(k: int) -> None:
    row = frozen(np.random.default_rng(3).integers(-40, 40, 3001) / 4)
    softmax = LogSoftmax(3001)
    lse = softmax.lse(row)
    order = sorted(range(3001), key=lambda token: (-float(row[token]), token))[:k]
    assert softmax.top(row, lse, k) == tuple((token, float(row[token]) - lse) for token in order)


def test_top_entries_are_bit_identical_to_logprob() -> None:
    row = noise(4099, seed=5)
    softmax = LogSoftmax(4099)
    lse = softmax.lse(row)
    top = softmax.top(row, lse, 100)
    assert [logprob for _, logprob in top] == [softmax.logprob(row, lse, token) for token, _ in top]


def test_earlier_rows_leave_no_trace() -> None:
    row, other = noise(1001, seed=1), noise(1001, seed=2, scale=50.0)
    softmax = LogSoftmax(1001)
    alone = softmax.lse(row)
    softmax.lse(other)
    assert softmax.lse(row) == alone == LogSoftmax(1001).lse(row)


def test_results_do_not_depend_on_where_the_row_lies() -> None:
    row = noise(4099, seed=8)
    softmax = LogSoftmax(4099)
    seen = set()
    for offset in range(20):
        memory = np.full(4099 + 40, math.nan, dtype=np.float32)
        moved = memory[offset : offset + 4099]
        moved[:] = row
        lse = softmax.lse(moved)
        seen.add((lse, softmax.top(moved, lse, 5)))
    assert len(seen) == 1


def test_results_do_not_depend_on_the_other_rows_of_the_matrix() -> None:
    softmax = LogSoftmax(1003)
    row = noise(1003, seed=4)
    matrix = np.stack([noise(1003, seed=5), row, noise(1003, seed=6), row])
    assert softmax.lse(matrix[1]) == softmax.lse(matrix[3]) == softmax.lse(row)
