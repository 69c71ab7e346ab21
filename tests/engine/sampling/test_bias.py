import math
from typing import Any

import pytest
from tests.fakes import generation_request

from afterword.engine.sampling.bias import EveryTokenBanned, TokenBias, check_tokens_are_left, token_bias
from afterword.fields.sampling import Sampling


@pytest.mark.parametrize(
    ("logit_bias", "meant"),
    [
        ((), TokenBias(None, {})),
        (((3, -100.0), (4, -99.5), (5, 99.5)), TokenBias(None, {3: -math.inf, 4: -99.5, 5: 99.5})),
        (((7, 100.0), (3, 100.0), (4, 5.0), (5, -100.0)), TokenBias((3, 7), {})),
    ],
    ids=["none", "ban", "force"],
)
def test_a_bias_of_100_either_way_is_no_sum(logit_bias: tuple[tuple[int, float], ...], meant: TokenBias) -> None:
    assert token_bias(Sampling(logit_bias=logit_bias)) == meant


@pytest.mark.parametrize(
    ("allowed", "logit_bias", "meant"),
    [
        ((7, 3), (), TokenBias((3, 7), {})),
        ((7, 3), ((3, 1.5), (4, 2.0)), TokenBias((3, 7), {3: 1.5})),
        ((7, 3), ((3, -100.0),), TokenBias((7,), {})),
        ((3,), ((3, -100.0),), TokenBias((), {})),
        ((7, 3), ((7, 100.0), (4, 100.0), (3, 2.0)), TokenBias((7,), {})),
        ((3,), ((4, 100.0),), TokenBias((), {})),
    ],
)
def test_a_bias_counts_within_what_is_allowed(
    allowed: tuple[int, ...], logit_bias: tuple[tuple[int, float], ...], meant: TokenBias
) -> None:
    assert token_bias(Sampling(logit_bias=logit_bias, allowed_token_ids=allowed)) == meant


def bans(n: int) -> Sampling:
    return Sampling(logit_bias=tuple((token, -100.0) for token in range(n)))


LAST = frozenset({3})
FORCED_LAST = Sampling(logit_bias=((3, 100.0),))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"sampling": bans(4)}, "logit_bias bans every token."),
        ({"sampling": bans(3), "end_ids": LAST}, None),
        (
            {"sampling": bans(3), "end_ids": LAST, "min_tokens": 1},
            "logit_bias and min_tokens together ban every token.",
        ),
        ({"sampling": bans(2), "end_ids": LAST, "min_tokens": 1}, None),
        ({"sampling": FORCED_LAST, "end_ids": LAST}, None),
        (
            {"sampling": FORCED_LAST, "end_ids": LAST | {9}, "min_tokens": 1},
            "logit_bias and min_tokens together ban every token.",
        ),
        ({"sampling": bans(4), "max_tokens": 0}, None),
    ],
)
def test_a_request_leaves_each_candidate_a_token(changes: dict[str, Any], message: str | None) -> None:
    request = generation_request([1], **changes)
    if message is None:
        check_tokens_are_left(request, 4)
        return
    with pytest.raises(EveryTokenBanned) as refused:
        check_tokens_are_left(request, 4)
    assert (str(refused.value), refused.value.param) == (message, "logit_bias")
