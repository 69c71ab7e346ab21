"""Which error of ours an upstream's error becomes. Its own failures are a 502 without details.

Only 400, 413 and 422 can be the client's mistake; their messages are passed on.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from time import time

import orjson

from afterword.engine.upstream.reply import ReplyError, parse_error
from afterword.errors import (
    AfterwordError,
    ContextExceeded,
    InvalidRequest,
    Overloaded,
    UpstreamFailed,
    UpstreamTimedOut,
)

CLIENT_MISTAKES = frozenset({400, 413, 422})
# 401, 403 and 404 are about our key and our model name there: the operator's mistake, never the client's.
BUSY = frozenset({429, 503})
MAY_PASS = frozenset({502, 503, 504})
"""Statuses after which trying again may help and does no harm."""

LONGEST_RETRY_AFTER = 3600
DEFAULT_RETRY_AFTER = 1

_LIMIT = re.compile(r"maximum context length (?:is|of) (\d+)")
_ABOUT_A_KEY = re.compile(r"(?i)api[ _-]?key|authenticat|authoriz|credential|insufficient_quota|billing")
_LEAST_CONTEXT_WORDS = ("context length", "context size", "context_length")


@dataclass(frozen=True, slots=True)
class Sizes:
    """The lengths that a request asked for, for the message about one that is too long."""

    n_prompt: int | None
    """None: only the upstream can count them."""
    max_tokens: int
    most_bytes: int
    """Of the answer: more than anything that was asked for can take."""


def failure_of_status(status: int, headers: Mapping[str, str], body: bytes, sizes: Sizes) -> AfterwordError:
    """The error for an answer with another status than 200."""
    error = _error_in(body)
    if status in CLIENT_MISTAKES and not is_about_our_key(error):
        return client_mistake(error, sizes)
    if status in BUSY:
        return Overloaded("The server that runs this model is busy.", retry_after=retry_after(headers))
    detail = f"HTTP status {status}: {error.message}"
    return UpstreamTimedOut(detail) if status == 504 else UpstreamFailed(detail)


def failure_of_event(error: ReplyError, sizes: Sizes) -> AfterwordError:
    """The error for an error event within a stream."""
    is_mistake = error.status in CLIENT_MISTAKES or error.kind == "invalid_request_error"
    if is_mistake and not is_about_our_key(error):
        return client_mistake(error, sizes)
    if error.status in BUSY or error.code == "overloaded":
        return Overloaded("The server that runs this model is busy.", retry_after=DEFAULT_RETRY_AFTER)
    return UpstreamFailed(f"error event: {error.message} ({error.kind}, {error.code or error.status})")


def is_about_our_key(error: ReplyError) -> bool:
    """Whether it is the operator's key or account that is refused, whatever the status says."""
    named = f"{error.code or ''} {error.kind or ''} {error.message}"
    return _ABOUT_A_KEY.search(named) is not None


def client_mistake(error: ReplyError, sizes: Sizes) -> InvalidRequest:
    """The upstream's message; ours for a request that is too long (docs/rules.md#context-length)."""
    message = error.message or "The server that runs this model refused the request."
    if error.code != "context_length_exceeded" and not any(words in message for words in _LEAST_CONTEXT_WORDS):
        return InvalidRequest(message, param=error.param, code=error.code)
    found = _LIMIT.search(message)
    limit = int(found[1]) if found is not None else error.numbers.get("n_ctx")
    n_prompt = error.numbers.get("n_prompt_tokens", sizes.n_prompt)
    if limit is None or n_prompt is None:
        return InvalidRequest(message, param=error.param or "prompt", code="context_length_exceeded")
    return ContextExceeded(limit=limit, prompt_tokens=n_prompt, max_tokens=sizes.max_tokens)


def retry_after(headers: Mapping[str, str]) -> int:
    """Whole seconds in a `Retry-After` header, given as a number or a date; at least 1, at most an hour."""
    text = headers.get("retry-after", "").strip()
    if text == "":
        return DEFAULT_RETRY_AFTER
    try:
        seconds = float(text)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(text).timestamp() - time()
        except ValueError:
            return DEFAULT_RETRY_AFTER
    if not 1 <= seconds <= LONGEST_RETRY_AFTER:
        return DEFAULT_RETRY_AFTER if not seconds > LONGEST_RETRY_AFTER else LONGEST_RETRY_AFTER
    return -int(-seconds // 1)


def _error_in(body: bytes) -> ReplyError:
    try:
        document = orjson.loads(body)
    except ValueError:
        document = None
    if isinstance(document, dict):
        return parse_error(document)
    return ReplyError(body[:500].decode("utf-8", "replace"), None, None, None, None, {})
