r"""One event of an upstream's answer, from JSON into values. Knows both shapes that log-probabilities come in.

The legacy shape is `{tokens, token_logprobs, top_logprobs}`; llama-server sends that of chat completions,
`{content: [{id, token, bytes, logprob, top_logprobs}]}`. Whatever does not fit raises `MalformedReply`.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeGuard

import orjson

MOST_TOKENS = 2**31 - 1
"""An upstream that counts more tokens than this is not believed: no prompt and no completion has so many."""


FINISH_REASONS_ELSEWHERE = {
    "eos": "stop",
    "eos_token": "stop",
    "end_of_text": "stop",
    "stop_sequence": "stop",
    "stop": "stop",
    "length": "length",
    "max_length": "length",
    "max_tokens": "length",
    "content_filter": "content_filter",
}
"""What servers call the ends of a completion, in lower case, as the API calls them."""


class MalformedReply(Exception):
    """The upstream sent something that is no completion. The message is for the log."""


@dataclass(frozen=True, slots=True)
class Named:
    """A token as the upstream lists it."""

    spelled: str
    r"""Its text, `bytes:\xNN...`, or `token_id:N`."""
    id: int | None = None
    piece: bytes | None = None
    """Its bytes, if the upstream lists them."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One listed token."""

    token: Named
    logprob: float | None
    """None for the first token of a prompt."""
    top: tuple[tuple[Named, float], ...]
    """As many as the upstream lists, in its order."""


@dataclass(frozen=True, slots=True)
class ChoiceDelta:
    """What one event adds to one choice."""

    index: int
    text: str
    entries: tuple[Entry, ...]
    finish_reason: str | None


@dataclass(frozen=True, slots=True)
class Counts:
    """The upstream's own token counts; None where it has none."""

    n_prompt: int | None
    n_cached: int | None
    n_completion: int | None


@dataclass(frozen=True, slots=True)
class Reply:
    """One event."""

    choices: tuple[ChoiceDelta, ...]
    counts: Counts | None
    fingerprint: str | None


@dataclass(frozen=True, slots=True)
class ReplyError:
    """An error that the upstream sent as an event, or as a body."""

    message: str
    param: str | None
    code: str | None
    kind: str | None
    """Its `type`."""
    status: int | None
    """The HTTP status in it, if there is one."""
    numbers: Mapping[str, int]
    """All whole numbers in it, such as the sizes of prompt and context."""


def parse_event(data: bytes) -> Reply | ReplyError:
    """The event in `data`. Raises `MalformedReply`."""
    try:
        event = orjson.loads(data)
    except ValueError:
        raise MalformedReply(f"an event of {len(data)} bytes is not JSON") from None
    if not isinstance(event, dict):
        raise MalformedReply(f"an event of {len(data)} bytes is not an object")
    if event.get("error") is not None or event.get("object") == "error":
        return parse_error(event)
    fingerprint = event.get("system_fingerprint")
    try:
        choices = tuple(_choice(choice) for choice in event.get("choices") or ())
        counts = None if event.get("usage") is None else _counts(event["usage"])
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        # Neither the event nor the error's words: both have text of the completion in them.
        what = f"{type(error).__name__}, {len(data)} bytes"
        raise MalformedReply(f"an event has not the shape of a completion ({what})") from None
    return Reply(choices, counts, fingerprint if isinstance(fingerprint, str) else None)


def parse_error(event: Mapping[str, Any]) -> ReplyError:
    """The error in an error body: `{"error": {...}}`, `{"error": "text"}`, or the bare object of older servers."""
    error = event.get("error", event)
    if not isinstance(error, dict):
        return ReplyError(str(error), None, None, None, None, {})
    code = error.get("code")
    return ReplyError(
        message=str(error.get("message", "")),
        param=_text(error.get("param")),
        code=_text(code),
        kind=_text(error.get("type")),
        status=code if _is_count(code) else None,
        numbers={name: value for name, value in error.items() if _is_count(value)},
    )


def _choice(choice: dict[str, Any]) -> ChoiceDelta:
    text = choice.get("text")
    return ChoiceDelta(
        index=_count(choice.get("index", 0)),
        text="" if text is None else _checked_text(text),
        entries=_entries(choice.get("logprobs")),
        finish_reason=_finish_reason(choice.get("finish_reason")),
    )


def _finish_reason(value: object) -> str | None:
    """In the API's words, where it is known what another server means; the empty text is none."""
    if not isinstance(value, str) or value.strip() == "":
        return None
    return FINISH_REASONS_ELSEWHERE.get(value.strip().lower(), value)


def _entries(logprobs: dict[str, Any] | None) -> tuple[Entry, ...]:
    if logprobs is None:
        return ()
    if logprobs.get("content") is not None:
        return tuple(_chat_entry(entry) for entry in logprobs["content"])
    tokens: list[str] = logprobs.get("tokens") or []
    values: Sequence[float | None] = logprobs["token_logprobs"] if tokens else ()
    tops: Sequence[dict[str, float] | None] = logprobs.get("top_logprobs") or [None] * len(tokens)
    return tuple(
        Entry(Named(_checked_text(token)), None if value is None else _logprob(value), _legacy_top(top))
        for token, value, top in zip(tokens, values, tops, strict=True)
    )


def _legacy_top(top: dict[str, float] | None) -> tuple[tuple[Named, float], ...]:
    return () if top is None else tuple((Named(token), _logprob(value)) for token, value in top.items())


def _chat_entry(entry: dict[str, Any]) -> Entry:
    top = tuple((_chat_token(one), _logprob(one["logprob"])) for one in entry.get("top_logprobs") or ())
    return Entry(_chat_token(entry), _logprob(entry["logprob"]), top)


def _chat_token(entry: dict[str, Any]) -> Named:
    piece, token_id = entry.get("bytes"), entry.get("id")
    return Named(
        _checked_text(entry["token"]),
        None if token_id is None else _count(token_id),
        None if piece is None else bytes(piece),
    )


def _counts(usage: object) -> Counts:
    """What can be a count; the rest is not known, which is no reason to fail an answer that is there."""
    told = usage if isinstance(usage, dict) else {}
    details = told.get("prompt_tokens_details")
    n_prompt, n_completion = _likely_count(told.get("prompt_tokens")), _likely_count(told.get("completion_tokens"))
    n_cached = _likely_count(details.get("cached_tokens")) if isinstance(details, dict) else None
    if n_prompt is not None and n_cached is not None:
        n_cached = min(n_cached, n_prompt)
    return Counts(n_prompt, n_cached, n_completion)


def _likely_count(value: object) -> int | None:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return value if _is_count(value) and value <= MOST_TOKENS else None


def _logprob(value: object) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool) or math.isnan(value):
        raise TypeError(f"{value!r} is no log-probability")
    return float(value)


def _count(value: object) -> int:
    if not _is_count(value):
        raise TypeError(f"{value!r} is no count")
    return value


def _is_count(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _checked_text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no text")
    return value


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
