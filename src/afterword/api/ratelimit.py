"""What a key has left, as `x-ratelimit-*` headers (docs/rules.md#headers). Counts nothing."""

import math
from collections.abc import Iterator

from afterword.gateway.interfaces import Allowance, LimitState

HEADERS = tuple(
    f"x-ratelimit-{what}-{kind}" for kind in ("requests", "tokens") for what in ("limit", "remaining", "reset")
)
"""All of them, for the list of headers that web pages may read."""


def ratelimit_headers(limit_state: LimitState) -> Iterator[tuple[str, str]]:
    """The headers, three for each limit that the key has."""
    for kind, allowance in (("requests", limit_state.requests), ("tokens", limit_state.tokens)):
        if allowance is not None:
            yield from _three(kind, allowance)


def _three(kind: str, allowance: Allowance) -> Iterator[tuple[str, str]]:
    yield f"x-ratelimit-limit-{kind}", str(allowance.limit)
    yield f"x-ratelimit-remaining-{kind}", str(allowance.remaining)
    yield f"x-ratelimit-reset-{kind}", duration(allowance.reset)


def duration(seconds: float) -> str:
    """As clients of the hosted API know it: `0s`, `120ms`, `1.5s`, `6m0s`. Rounded up to milliseconds."""
    milliseconds = math.ceil(round(seconds * 1000, 6))
    if 0 < milliseconds < 1000:
        return f"{milliseconds}ms"
    minutes, rest = divmod(milliseconds, 60_000)
    shown = f"{rest / 1000:.3f}".rstrip("0").rstrip(".") + "s"
    return shown if minutes == 0 else f"{minutes}m{shown}"
