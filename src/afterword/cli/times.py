"""Parses times on the command line: dates, times of day, spans from now. All in UTC."""

import re
from datetime import UTC, datetime, timedelta

from afterword.errors import ConfigurationError

UNITS = {"w": timedelta(weeks=1), "d": timedelta(days=1), "h": timedelta(hours=1), "m": timedelta(minutes=1)}

ALLOWED = "a date such as 2026-12-31, a moment such as 2026-12-31T18:00 (in UTC), or a span such as 2w, 30d, 12h or 45m"


def future(text: str, option: str, now: datetime) -> datetime:
    """The moment written, a span counting from now on. Raises `ConfigurationError`, also for one that is over."""
    moment = _parse(text, option, now, forward=1)
    if moment <= now:
        raise ConfigurationError(f"{option} is {text!r}: it must be in the future.")
    return moment


def past(text: str, option: str, now: datetime) -> datetime:
    """The moment written, a span counting back from now. Raises `ConfigurationError`."""
    return _parse(text, option, now, forward=-1)


def _parse(text: str, option: str, now: datetime, forward: int) -> datetime:
    span = re.fullmatch(r"([0-9]{1,6})([wdhm])", text)
    try:
        if span is not None:
            return now + forward * int(span[1]) * UNITS[span[2]]
        moment = datetime.fromisoformat(text)
    except (ValueError, OverflowError):
        raise ConfigurationError(f"{option} is {text!r}: it must be {ALLOWED}.") from None
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
