"""Logging: how lines look, and the one line that each request leaves. Knows no HTTP framework and no engine.

Lines go to stderr or to a file. Prompts and completions are never logged.
"""

import logging
import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from io import StringIO, TextIOBase
from pathlib import Path
from typing import Literal, TextIO, cast

import structlog
from structlog.typing import EventDict, ExcInfo
from typing_extensions import override

from afterword.completions.filter.screen import Hit
from afterword.text.brief import cut, plain

MAX_VALUE = 1000
"""Characters of a value that a line shows."""

LogFormat = Literal["console", "json"]


@dataclass(frozen=True, slots=True)
class RequestRecord:
    """One HTTP request at its end. Times are in seconds."""

    request_id: str
    method: str
    path: str
    route: str
    """The route's template, or `unmatched`: one label for all the paths it stands for."""
    status: int
    """499 if the client left before there was a status."""
    outcome: int
    """The status of what became of it: 499 if the client left, that of the error if a stream broke."""
    latency: float
    left: bool
    """The client went away before the answer was complete."""
    key_id: str | None = None
    account_id: str | None = None
    """Of the key that was sent; None: there was none, or it has no id."""
    failure: str | None = None
    """Why it was refused or failed, one of a few words; None: it was not."""
    allowances: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """Of the key: limit and what is left of it, by what is limited (`requests`, `tokens`)."""
    completion: "CompletionRecord | None" = None
    """None unless the request was a valid completion request."""


@dataclass(frozen=True, slots=True)
class CompletionRecord:
    """The part of a request's record that only completions have. Counts are 0 if no engine accepted it."""

    model: str
    full_name: str
    """The model's, `vendor/name`."""
    stream: bool
    seed: int
    seed_drawn: bool
    """The server drew the seed because the client gave none."""
    user: str | None
    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int
    estimated: bool
    """Nobody has counted some of the tokens."""
    finish_reasons: tuple[str, ...]
    """Of the choices that finished, in the order they did."""
    ttft: float | None
    """Seconds from the request's arrival to its first token; None: there was none."""


def configure(log_format: LogFormat = "console", level: str = "info", file: Path | None = None) -> "LogFile":
    """Set up structlog for the whole process. Called once, by the program, before the server starts.

    Lines are appended to `file`, None: written to stderr. Raises `OSError` if it cannot be opened.
    """
    log = LogFile(file)
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            _cut,
            *_rendering(log_format, is_terminal=file is None and sys.stderr.isatty()),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level.upper()]),
        logger_factory=structlog.PrintLoggerFactory(file=cast(TextIO, log)),
        cache_logger_on_first_use=False,
    )
    return log


class LogFile(TextIOBase):
    """Where lines go. It may be closed, full, or its reader may end: what cannot be written is dropped."""

    def __init__(self, path: Path | None) -> None:
        """None: stderr. Raises `OSError`."""
        self._path = path
        self._file = sys.stderr if path is None else _opened(path)

    def reopen(self) -> None:
        """Open the file anew under its name: it was moved away. One that cannot be opened is kept as it is."""
        if self._path is None:
            structlog.get_logger("afterword").info("the log is stderr, which is not opened anew")
            return
        try:
            self._file, old = _opened(self._path), self._file
        except OSError as error:
            structlog.get_logger("afterword").error("the log could not be opened anew", reason=str(error))
            return
        old.close()

    @override
    def write(self, text: str, /) -> int:
        """Write if it can be written; a log line must never fail a request."""
        with suppress(OSError, ValueError):
            return self._file.write(text)
        return len(text)

    @override
    def flush(self) -> None:
        """Flush if it can be flushed."""
        with suppress(OSError, ValueError):
            self._file.flush()


def _opened(path: Path) -> TextIO:
    return path.open("a", encoding="utf-8", buffering=1)


def _rendering(log_format: LogFormat, *, is_terminal: bool) -> list[structlog.typing.Processor]:
    if log_format == "json":
        return [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
    # https://no-color.org
    colors = is_terminal and os.environ.get("NO_COLOR", "") == ""
    return [_escape, structlog.dev.ConsoleRenderer(colors=colors, exception_formatter=_traceback)]


def _cut(_logger: object, _method: str, line: EventDict) -> EventDict:
    """Leave the beginning of values that nobody can read: clients choose some of them, such as `user`."""
    return {name: cut(value, MAX_VALUE) if isinstance(value, str) else value for name, value in line.items()}


def _escape(_logger: object, _method: str, line: EventDict) -> EventDict:
    """Spell control characters out, as JSON does: a terminal would obey them."""
    return {name: plain(value) if isinstance(value, str) else value for name, value in line.items()}


def _traceback(file: TextIO, error: ExcInfo) -> None:
    # structlog's default shows local variables in tracebacks, and those hold prompts.
    written = StringIO()
    structlog.dev.plain_traceback(written, error)
    file.write("\n".join(map(plain, written.getvalue().split("\n"))))


def log_request(record: RequestRecord) -> None:
    """Write the request's line (docs/rules.md#seed: the drawn seed is in it, so that a run can be repeated)."""
    facts: dict[str, object] = {
        "request_id": record.request_id,
        "method": record.method,
        "path": record.path,
        "status": record.status,
        "latency_ms": _milliseconds(record.latency),
    }
    if record.left:
        facts["client_left"] = True
    elif record.outcome != record.status:
        facts["broke"] = record.outcome
    if record.key_id is not None:
        facts |= {"key": record.key_id, "account": record.account_id}
    completion = record.completion
    if completion is not None:
        facts |= {
            "model": completion.model,
            "stream": completion.stream,
            "prompt_tokens": completion.prompt_tokens,
            "cached_tokens": completion.cached_tokens,
            "completion_tokens": completion.completion_tokens,
            **({"estimated": True} if completion.estimated else {}),
            "seed": completion.seed,
            "seed_drawn": completion.seed_drawn,
            "finish_reasons": list(completion.finish_reasons),
            "ttft_ms": None if completion.ttft is None else _milliseconds(completion.ttft),
            "user": completion.user,
        }
    structlog.get_logger("afterword.requests").info("request", **facts)


def log_flagged(hit: Hit) -> None:
    """Write that the content filter has ended a completion: who asked for it and which rule, never the text."""
    context = hit.context
    structlog.get_logger("afterword.filter").warning(
        "completion flagged",
        request_id=context.request_id,
        user=context.user,
        model=context.model,
        prompt_index=context.prompt_index,
        candidate=context.candidate,
        rule=hit.rule,
    )


def _milliseconds(seconds: float) -> float:
    return round(seconds * 1000, 1)
