"""vLLM's lists of log-probabilities in this package's order."""

import numpy as np

from afterword.engine.vllm.scores import prompt_scores, sampled


def test_sampled_token_comes_first_and_may_come_again() -> None:
    assert sampled([7, 3, 7], [-1.0, -0.5, -1.0], 2) == (-1.0, ((3, -0.5), (7, -1.0)))


def test_token_beyond_the_likeliest_is_not_among_them() -> None:
    assert sampled([7, 3, 5], [-9.0, -0.5, -1.0], 2) == (-9.0, ((3, -0.5), (5, -1.0)))


def test_equal_values_go_by_id_also_at_the_edge() -> None:
    assert sampled([2, 9, 5], [-1.0, -1.0, -1.0], 2) == (-1.0, ((2, -1.0), (5, -1.0)))


def test_nothing_is_listed_for_0() -> None:
    assert sampled([7], [-1.0], 0) == (-1.0, ())


def test_values_are_never_infinite() -> None:
    assert sampled([7, 3], [float("-inf"), 0.0], 1) == (-9999.0, ((3, 0.0),))
    assert prompt_scores([7], [float("-inf")], 1, 0).logprobs.tolist() == [-9999.0]


def test_prompt_rows_follow_the_same_rules() -> None:
    rows = [([7, 3, 7], [-1.0, -0.5, -1.0]), ([7, 3, 5], [-9.0, -0.5, -1.0]), ([2, 9, 5], [-1.0, -1.0, -1.0])]
    ids = [token for row, _ in rows for token in row]
    logprobs = [value for _, row in rows for value in row]
    scores = prompt_scores(ids, logprobs, 3, 2)
    assert scores.logprobs.tolist() == [-1.0, -9.0, -1.0]
    assert scores.top_ids.tolist() == [[3, 7], [3, 5], [2, 5]]
    assert scores.top_logprobs.tolist() == [[-0.5, -1.0], [-0.5, -1.0], [-1.0, -1.0]]


def test_prompt_of_one_token_has_no_rows() -> None:
    scores = prompt_scores([], [], 0, 3)
    assert (scores.logprobs.shape, scores.top_ids.shape, scores.top_logprobs.shape) == ((0,), (0, 3), (0, 3))
    assert scores.logprobs.dtype == np.float64
    assert scores.top_ids.dtype == np.int32
