"""How long a client wants to wait: the `x-request-timeout` header (docs/rules.md#deadlines)."""

import math

from starlette.datastructures import Headers

from afterword.errors import InvalidRequest
from afterword.text.brief import brief

HEADER = "x-request-timeout"

TIMED_OUT = {"x-timed-out": "true"}
"""The header of an answer that its deadline has cut short."""


def seconds_for(headers: Headers, most: int | None) -> float | None:
    """Seconds that a request may take: what it says, at most `most`; None: as many as it needs.

    Raises `InvalidRequest`.
    """
    said = headers.get(HEADER)
    if said is None:
        return most
    try:
        seconds = float(said)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds < math.inf:
        raise InvalidRequest(
            f"The header {HEADER} must be a number of seconds above 0, not '{brief(said)}'.",
            param=HEADER,
            code="invalid_value",
        )
    return seconds if most is None else min(seconds, most)
