"""How long a client wants to wait: the `x-request-timeout` header (docs/rules.md#deadlines)."""

import asyncio
import math
import time

from starlette.datastructures import Headers

from afterword.api.exchange import Exchange
from afterword.errors import InvalidRequest
from afterword.text.brief import brief

HEADER = "x-request-timeout"

TIMED_OUT = {"x-timed-out": "true"}
"""The header of an answer that its deadline has cut short."""


def deadline_for(exchange: Exchange, headers: Headers, most: int | None) -> float | None:
    """When the request ends at the latest, by the loop's clock; `most`: seconds. Raises `InvalidRequest`."""
    seconds = seconds_for(headers, most)
    if seconds is None:
        return None
    return asyncio.get_running_loop().time() + exchange.timeline.started + seconds - time.perf_counter()


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
