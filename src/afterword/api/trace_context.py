"""Reads W3C Trace Context from the headers of a request."""

import re

from starlette.datastructures import Headers

from afterword.engine.trace import Trace

_TRACEPARENT = re.compile(r"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")
_TRACESTATE = re.compile(r"[\x20-\x7e]{1,512}")


def trace_of(request_id: str, headers: Headers) -> Trace:
    """What is passed on of `headers`. Without a `traceparent` that keeps its rules `tracestate` is none either."""
    sent = headers.getlist("traceparent")
    if len(sent) != 1 or _TRACEPARENT.fullmatch(sent[0]) is None:
        return Trace(request_id)
    state = ",".join(headers.getlist("tracestate")).strip()
    return Trace(request_id, sent[0], state if _TRACESTATE.fullmatch(state) is not None else "")
