"""One HTTP request from arrival to end: its id, its headers, its log line, its counts.

Wraps everything else, so that errors, preflights and clients that leave are recorded too. Knows no route.
"""

import re
import secrets
import time
from dataclasses import dataclass, field

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from afterword.completions.assemble import Assembler
from afterword.completions.request import Completion
from afterword.engine.events import Chunk, Event
from afterword.logs import CompletionRecord, RequestRecord, log_request
from afterword.metrics import Metrics

CLIENT_LEFT_STATUS = 499
"""Recorded when the client goes before there is a status; never sent."""

QUIET_ROUTES = frozenset({"/health", "/ready", "/metrics"})
"""Asked every few seconds by machines: counted, not logged."""

_SANE_ID = re.compile(r"[A-Za-z0-9_.:-]{1,128}")


@dataclass(slots=True)
class Exchange:
    """What is known so far about the request being handled. One per request, on the event loop."""

    request_id: str
    started: float
    """`time.perf_counter()` at arrival."""
    status: int | None = None
    left: bool = False
    completion: Completion | None = None
    assembler: Assembler | None = None
    finish_reasons: list[str] = field(default_factory=list)
    first_token: float | None = None
    """`time.perf_counter()` when the first token of any choice came."""

    def begin(self, completion: Completion, assembler: Assembler) -> None:
        """Remember what is being answered; the counts are read when the request ends."""
        self.completion = completion
        self.assembler = assembler

    def saw(self, event: Event) -> None:
        """Notice the first token."""
        if self.first_token is None and isinstance(event, Chunk):
            self.first_token = time.perf_counter()

    def record(self) -> CompletionRecord | None:
        """What is known of the completion by now, None if none was understood."""
        if self.completion is None or self.assembler is None:
            return None
        usage = self.assembler.usage()
        return CompletionRecord(
            model=self.completion.model,
            stream=self.completion.stream,
            seed=self.completion.seed,
            seed_drawn=not self.completion.generations[0].reproducible,
            user=self.completion.user,
            prompt_tokens=usage.prompt_tokens,
            cached_tokens=usage.cached_tokens,
            completion_tokens=usage.completion_tokens,
            finish_reasons=tuple(self.finish_reasons),
            ttft=None if self.first_token is None else self.first_token - self.started,
        )


def exchange_of(scope: Scope) -> Exchange:
    """The exchange that a request's scope belongs to."""
    found = scope["state"]["exchange"]
    assert isinstance(found, Exchange)
    return found


class ExchangeMiddleware:
    """Opens an `Exchange` per request, adds the headers of SPEC section 6, and records how it ended."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on between opening and recording."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        path = scope["path"]
        exchange = Exchange(request_id(Headers(scope=scope)), time.perf_counter())
        scope.setdefault("state", {})["exchange"] = exchange

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                exchange.status = message["status"]
                _add_headers(message, exchange)
            await send(message)

        try:
            await self._app(scope, receive, send_with_headers)
        finally:
            self._close(scope, path, exchange)

    def _close(self, scope: Scope, path: str, exchange: Exchange) -> None:
        no_status = CLIENT_LEFT_STATUS if exchange.left else 500
        record = RequestRecord(
            request_id=exchange.request_id,
            method=scope["method"],
            path=path,
            route=route_label(scope),
            status=no_status if exchange.status is None else exchange.status,
            latency=time.perf_counter() - exchange.started,
            left=exchange.left,
            completion=exchange.record(),
        )
        self._metrics.observe(record)
        if record.route not in QUIET_ROUTES:
            log_request(record)


def request_id(headers: Headers) -> str:
    """The client's own `x-request-id` if it is short and plain, else a new one."""
    sent = headers.get("x-request-id", "")
    return sent if _SANE_ID.fullmatch(sent) else f"req_{secrets.token_hex(16)}"


def route_label(scope: Scope) -> str:
    """The template of the route that took the request, `unmatched` if none did; never a path a client made up."""
    return getattr(scope.get("route"), "path", "unmatched")


def _add_headers(message: Message, exchange: Exchange) -> None:
    headers = MutableHeaders(raw=message.setdefault("headers", []))
    headers["x-request-id"] = exchange.request_id
    headers["openai-processing-ms"] = str(round((time.perf_counter() - exchange.started) * 1000))
    headers["openai-version"] = "2020-10-01"
    if exchange.completion is not None:
        headers["openai-model"] = exchange.completion.model.encode("ascii", "replace").decode("ascii")
