import numpy as np
import pytest

from afterword.engine.echo_model import EXPECTED_LOGIT, EchoModel, likeliest, log_softmax


@pytest.fixture
def model() -> EchoModel:
    return EchoModel(258, first_control=256)


def test_expected_token_is_the_likeliest_even_if_it_is_a_control_token(model: EchoModel) -> None:
    for expected in (0, 97, 256, 257):
        rows = model.logits(range(258), expected)
        assert (rows.argmax(axis=1) == expected).all()
        assert (rows[:, expected] == EXPECTED_LOGIT).all()


def test_logits_are_the_same_in_every_process(model: EchoModel) -> None:
    row = model.logits([97], 98)[0]
    assert [round(float(value), 6) for value in row[:3]] == [0.658861, 0.87858, 0.50493]


def test_rows_belong_to_the_caller(model: EchoModel) -> None:
    model.logits([97], 98)[:] = 0
    assert model.logits([97], 98)[0, 98] == EXPECTED_LOGIT


def test_noise_is_spread_and_control_tokens_are_unlikely(model: EchoModel) -> None:
    rows = model.logits(range(258), 0)
    noise = rows[:, 1:256]
    assert 0.0 <= noise.min() < 0.01
    assert 1.99 < noise.max() < 2.0
    assert noise.mean() == pytest.approx(1.0, abs=0.02)
    assert rows[:, 256:].max() < -6.0


def test_log_softmax_is_a_distribution(model: EchoModel) -> None:
    logprobs = log_softmax(model.logits(range(258), 5))
    assert np.exp(logprobs).sum(axis=1) == pytest.approx(np.ones(258), abs=1e-12)
    assert 0.85 < np.exp(logprobs[:, 5]).min() < np.exp(logprobs[:, 5]).max() < 0.99


def test_log_softmax_of_known_logits() -> None:
    logprobs = log_softmax(np.log(np.array([[1, 2, 5]], dtype=np.float32)))
    assert logprobs[0] == pytest.approx(np.log([0.125, 0.25, 0.625]), abs=1e-7)


@pytest.mark.parametrize(
    ("k", "ids"),
    [
        pytest.param(0, [[]], id="none"),
        pytest.param(2, [[1, 2]], id="ties-by-id"),
        pytest.param(9, [[1, 2, 3, 0]], id="more-than-there-are"),
    ],
)
def test_likeliest_first_and_ties_by_id(k: int, ids: list[list[int]]) -> None:
    assert likeliest(np.array([[-3.0, -1.0, -1.0, -2.0]]), k).tolist() == ids


def test_no_rows_have_no_scores(model: EchoModel) -> None:
    assert likeliest(log_softmax(model.logits([], 5)), 3).shape == (0, 3)
