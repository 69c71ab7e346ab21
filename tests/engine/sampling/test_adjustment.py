from collections.abc import Sequence

import numpy as np
import pytest

from afterword.engine.sampling.adjustment import Adjustment
from afterword.engine.sampling.bias import DenseBias
from afterword.fields.sampling import Sampling

INF = float("inf")


def adjusted(
    sampling: Sampling, logits: list[float], prompt: Sequence[int] = (), accepted: Sequence[int] = ()
) -> list[float]:
    row = np.array(logits, dtype=np.float32)
    row.setflags(write=False)
    adjustment = Adjustment(sampling, len(logits), prompt, DenseBias(sampling, len(logits)), list)
    for token in accepted:
        adjustment.accept(token)
    scores: list[float] = adjustment.apply(row, np.empty_like(row), np.empty_like(row)).tolist()
    return scores


@pytest.mark.parametrize(
    ("sampling", "logits", "prompt", "accepted", "expected"),
    [
        pytest.param(Sampling(), [1, 2], (0,), (1,), [1, 2], id="neutral"),
        pytest.param(Sampling(logit_bias=((1, -1.5),)), [1, 2], (), (), [1, 0.5], id="bias_is_added"),
        pytest.param(Sampling(logit_bias=((1, -100),)), [1, 500], (), (), [1, -INF], id="minus_100_bans"),
        pytest.param(Sampling(logit_bias=((1, -99.5),)), [1, 200], (), (), [1, 100.5], id="nearly_minus_100"),
        pytest.param(
            Sampling(logit_bias=((0, 100), (2, 100), (3, 50))),
            [1, 500, 3, 4],
            (),
            (),
            [1, -INF, 3, -INF],
            id="100_leaves_only_the_forced_ones_with_their_own_logits",
        ),
        pytest.param(
            Sampling(frequency_penalty=0.5), [4, 4, 4], (0, 0), (1, 2, 1), [4, 3, 3.5], id="frequency_not_of_the_prompt"
        ),
        pytest.param(Sampling(presence_penalty=0.5), [4, 4, 4], (0,), (1, 2, 1), [4, 3.5, 3.5], id="presence_once"),
        pytest.param(
            Sampling(frequency_penalty=0.25, presence_penalty=-2), [4, 4], (), (0, 0), [5.5, 4], id="both_at_once"
        ),
        pytest.param(
            Sampling(frequency_penalty=1, logit_bias=((0, 3),)), [4, 4], (), (0, 1), [6, 3], id="bias_outlives_penalty"
        ),
        pytest.param(
            Sampling(frequency_penalty=1, logit_bias=((0, -100),)), [4, 4], (), (0,), [-INF, 4], id="ban_stays"
        ),
        pytest.param(
            Sampling(frequency_penalty=-2, logit_bias=((0, 100),)), [4, 4], (), (1, 0), [6, -INF], id="force_stays"
        ),
        pytest.param(
            Sampling(repetition_penalty=2),
            [4, -4, 4, -4, 0],
            (0, 1, 4),
            (),
            [2, -8, 4, -4, 0],
            id="repetition_of_the_prompt",
        ),
        pytest.param(
            Sampling(repetition_penalty=2), [4, -4, 4], (0,), (1, 1), [2, -8, 4], id="repetition_counts_nothing_twice"
        ),
        pytest.param(
            Sampling(repetition_penalty=0.5), [4, -4, 4], (0, 1), (), [8, -2, 4], id="repetition_below_1_favours"
        ),
        pytest.param(
            Sampling(repetition_penalty=2, logit_bias=((0, 5), (1, 5))),
            [4, -4],
            (0, 1),
            (),
            [7, -3],
            id="repetition_before_bias",
        ),
        pytest.param(Sampling(repetition_penalty=2), [-INF, 1], (0, 1), (), [-INF, 0.5], id="minus_infinity_stays"),
    ],
)
def test_adjusted_logits(
    sampling: Sampling, logits: list[float], prompt: Sequence[int], accepted: Sequence[int], expected: list[float]
) -> None:
    assert adjusted(sampling, logits, prompt, accepted) == expected


@pytest.mark.parametrize("penalty", [5e-324, 1e-300, 1e-40, 1e40, 1e300])
def test_extreme_repetition_penalties_keep_logits_finite(penalty: float) -> None:
    up, down, zero, other = adjusted(Sampling(repetition_penalty=penalty), [4, -4, 0, 1], prompt=(0, 1, 2))
    assert np.isfinite([up, down]).all()
    assert (zero, other) == (0, 1)
    assert (up > other, down < -other) == ((True, False) if penalty < 1 else (False, True))


def test_many_penalties_pile_up_no_rounding() -> None:
    assert adjusted(Sampling(frequency_penalty=0.1), [100.0, 0.0], accepted=[0] * 1000) == [0.0, 0.0]


def test_without_adjustments_the_row_itself_comes_back() -> None:
    row = np.zeros(3, dtype=np.float32)
    adjustment = Adjustment(Sampling(), 3, (0, 1), DenseBias(Sampling(), 3), list)
    adjustment.accept(2)
    assert adjustment.apply(row, np.empty_like(row), np.empty_like(row)) is row


def test_http_22_candidates_share_the_bias_of_their_request_until_a_penalty_makes_theirs_differ() -> None:
    sampling = Sampling(logit_bias=((0, 1.5), (1, -100)), frequency_penalty=0.5)
    bias = DenseBias(sampling, 3)
    first, second = (Adjustment(sampling, 3, (), bias, list) for _ in range(2))
    row = np.zeros(3, dtype=np.float32)
    first.accept(0)
    assert first.apply(row, np.empty_like(row), np.empty_like(row)).tolist() == [1.0, -INF, 0.0]
    assert second.apply(row, np.empty_like(row), np.empty_like(row)).tolist() == [1.5, -INF, 0.0]
    assert second.apply(row, np.empty_like(row), np.empty_like(row)).tolist() == [1.5, -INF, 0.0]
