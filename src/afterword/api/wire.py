"""Serialises JSON with safe characters and finite numbers. Knows no field of the API."""

import math

import orjson
from starlette.responses import Response

from afterword.engine.sampling.logprobs import FLOOR


def dumps(value: object) -> bytes:
    """Compact UTF-8 JSON without the characters that some readers take for line ends (docs/rules.md#safe-json)."""
    raw = orjson.dumps(value)
    # As whole UTF-8 sequences, which in JSON can only be inside strings.
    if b"\xe2\x80" in raw:
        raw = raw.replace(b"\xe2\x80\xa8", b"\\u2028").replace(b"\xe2\x80\xa9", b"\\u2029")
    return raw.replace(b"\xc2\x85", b"\\u0085")


def json_response(value: object, status: int = 200) -> Response:
    """An answer that is one JSON value."""
    return Response(dumps(value), status_code=status, headers={"content-type": "application/json"})


def finite(logprob: float) -> float:
    """`logprob`, or `FLOOR` if JSON cannot hold it (docs/rules.md#finite); the bits are kept otherwise."""
    return logprob if FLOOR < logprob < math.inf else FLOOR
