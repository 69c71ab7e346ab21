"""How limits are put in headers."""

import pytest

from afterword.api.ratelimit import HEADERS, duration, ratelimit_headers
from afterword.gateway.interfaces import Allowance, LimitState


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0, "0s"),
        (0.0001, "1ms"),
        (0.12, "120ms"),
        (0.9991, "1s"),
        (1.0, "1s"),
        (1.5, "1.5s"),
        (59.9999, "1m0s"),
        (59.951, "59.951s"),
        (60.0, "1m0s"),
        (61.05, "1m1.05s"),
        (360.0, "6m0s"),
        (7200.0, "120m0s"),
    ],
)
def test_a_time_is_written_as_clients_of_the_hosted_api_read_it(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_each_limit_has_three_headers() -> None:
    limit_state = LimitState(requests=Allowance(3500, 3499, 0.017), tokens=Allowance(90000, 0, 60.0))
    assert dict(ratelimit_headers(limit_state)) == {
        "x-ratelimit-limit-requests": "3500",
        "x-ratelimit-remaining-requests": "3499",
        "x-ratelimit-reset-requests": "17ms",
        "x-ratelimit-limit-tokens": "90000",
        "x-ratelimit-remaining-tokens": "0",
        "x-ratelimit-reset-tokens": "1m0s",
    }
    assert set(HEADERS) == set(dict(ratelimit_headers(limit_state)))


def test_without_limits_there_are_no_headers() -> None:
    assert list(ratelimit_headers(LimitState())) == []
