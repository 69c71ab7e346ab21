"""Moments as people write them."""

from datetime import UTC, datetime, timedelta

import pytest

from afterword.cli.times import future, past
from afterword.errors import ConfigurationError

NOW = datetime(2026, 11, 29, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("2026-12-31", datetime(2026, 12, 31, tzinfo=UTC), id="date"),
        pytest.param("2026-12-31T18:00", datetime(2026, 12, 31, 18, tzinfo=UTC), id="moment"),
        pytest.param("2026-12-31T18:00+02:00", datetime(2026, 12, 31, 16, tzinfo=UTC), id="moment elsewhere"),
        pytest.param("2026-12-31T18:00Z", datetime(2026, 12, 31, 18, tzinfo=UTC), id="moment, said to be UTC"),
        pytest.param("2w", NOW + timedelta(days=14), id="weeks"),
        pytest.param("30d", NOW + timedelta(days=30), id="days"),
        pytest.param("12h", NOW + timedelta(hours=12), id="hours"),
        pytest.param("45m", NOW + timedelta(minutes=45), id="minutes"),
    ],
)
def test_a_date_a_moment_and_a_span_are_understood(text: str, expected: datetime) -> None:
    assert future(text, "--expires", NOW) == expected


def test_a_span_counts_back_where_the_past_is_meant() -> None:
    assert past("7d", "--since", NOW) == NOW - timedelta(days=7)
    assert past("2026-11-01", "--since", NOW) == datetime(2026, 11, 1, tzinfo=UTC)


@pytest.mark.parametrize("text", ["", "soon", "7", "d", "-7d", "7 d", "1.5d", "999999w", "2026-13-01", "2026"])
def test_anything_else_is_refused_with_what_it_may_be(text: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        future(text, "--expires", NOW)
    assert str(caught.value).startswith(f"--expires is {text!r}: it must be a date such as 2026-12-31, a moment")


@pytest.mark.parametrize("text", ["0d", "2026-11-29", "2026-11-29T12:00"])
def test_what_must_lie_ahead_may_not_be_over(text: str) -> None:
    with pytest.raises(ConfigurationError, match="must be in the future"):
        future(text, "--expires", NOW)
