"""One HTTP request from arrival to end: its id, its headers, its log line, its counts, its row in the ledger.

The outermost middleware, so that errors, preflights and disconnects are recorded too. Knows no route.
"""

import asyncio
import re
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Protocol

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from afterword.api.ratelimit import ratelimit_headers
from afterword.api.trace_context import trace_of
from afterword.completions.assemble import Assembler
from afterword.completions.completion import Completion
from afterword.completions.counting import NOTHING_USED, Usage
from afterword.engine.events import Chunk, Event
from afterword.engine.on_demand import OnDemandEngine
from afterword.engine.trace import Trace
from afterword.gateway.grant import Grant
from afterword.gateway.interfaces import Gateway, LimitState, Reservation, UsageRow
from afterword.logs import CompletionRecord, RequestRecord, log_request
from afterword.metrics import RequestMetrics
from afterword.tracing.tracer import RequestSpan, Timeline, Tracer

CLIENT_LEFT_STATUS = 499
"""Recorded when the client disconnects before there is a status; never sent."""

QUIET_ROUTES = frozenset({"/health", "/ready", "/metrics", "/playground/{version}/{name}"})
"""Requested every few seconds by probes, or thirty at a time by a browser: counted, not logged."""

_SANE_ID = re.compile(r"[A-Za-z0-9_.:-]{1,128}")


@dataclass(slots=True)
class Exchange:
    """What is known so far about the request being handled. One per request, on the event loop."""

    trace: Trace
    """What others call it; its id is ours too."""
    timeline: Timeline
    send: Send
    """The server's. All layers of the application look only at the head of an answer: what follows may go this way."""
    span: RequestSpan | None = None
    """None: nothing is traced."""
    status: int | None = None
    left: bool = False
    broke: int | None = None
    """The status of the error that ended a stream which had begun well."""
    failure: str | None = None
    """Why it was refused or failed, one of a few words."""
    limit_state: LimitState = field(default_factory=LimitState)
    """What the key had left when the answer began."""
    grant: Grant | None = None
    """None until a valid key was found, and where none is needed."""
    reservation: Reservation | None = None
    """Set once the request was admitted."""
    completion: Completion | None = None
    assembler: Assembler | None = None
    full_name: str = ""
    """The model's; set with `completion`."""
    holds: OnDemandEngine | None = None
    """Whose model stays loaded until the request has ended."""
    submitted: bool = False
    """The engine has accepted all prompts."""
    finish_reasons: list[str] = field(default_factory=list)
    first_token: float | None = None
    """`time.perf_counter()` when the first token of any choice came."""
    latest: dict[tuple[int, int], tuple[float, int]] = field(default_factory=dict)
    """Of each candidate, by its prompt's number and its own: when its latest chunk came, and its tokens by then."""

    def begin(self, completion: Completion, assembler: Assembler, full_name: str) -> None:
        """Note what is being answered, by which model; the counts are read when the request ends."""
        self.completion = completion
        self.assembler = assembler
        self.full_name = full_name

    @property
    def request_id(self) -> str:
        """The id that the answer and the log have."""
        return self.trace.request_id

    def submit(self) -> None:
        """The engine has accepted all prompts."""
        self.submitted = True
        self.timeline.submitted = time.perf_counter()

    def note_event(self, prompt_index: int, event: Event) -> float | None:
        """Notice when tokens come. Returns the seconds for each token since the candidate's chunk before, if any."""
        now = time.perf_counter()
        if not isinstance(event, Chunk):
            self.timeline.note(prompt_index, event, now)
            return None
        candidate = (prompt_index, event.index)
        if self.first_token is None:
            self.first_token = now
        before = self.latest.get(candidate)
        self.latest[candidate] = (now, event.n_tokens)
        if before is None or event.n_tokens <= before[1]:
            return None
        # A slow reader's chunks are merged, so there may be several tokens.
        return (now - before[0]) / (event.n_tokens - before[1])

    def usage(self) -> Usage:
        """Tokens used so far: all that were generated, read or not (docs/rules.md#what-counts)."""
        if not self.submitted or self.assembler is None:
            return NOTHING_USED
        return self.assembler.used(left=self.left)

    @property
    def outcome(self) -> int:
        """The status of what became of the request, whatever was sent before that was known."""
        if self.broke is not None:
            return self.broke
        if self.left:
            return CLIENT_LEFT_STATUS
        return 500 if self.status is None else self.status

    def record(self) -> CompletionRecord | None:
        """The completion's record so far, None if the request was not a valid one."""
        if self.completion is None:
            return None
        usage = self.usage()
        return CompletionRecord(
            model=self.completion.model,
            full_name=self.full_name,
            stream=self.completion.stream,
            seed=self.completion.seed,
            seed_drawn=not self.completion.generations[0].reproducible,
            user=self.completion.user,
            prompt_tokens=usage.prompt_tokens,
            cached_tokens=usage.cached_tokens,
            completion_tokens=usage.completion_tokens,
            estimated=usage.estimated,
            finish_reasons=tuple(self.finish_reasons),
            ttft=None if self.first_token is None else self.first_token - self.timeline.started,
        )


def exchange_of(scope: Scope) -> Exchange:
    """The exchange that a request's scope belongs to."""
    found = scope["state"]["exchange"]
    assert isinstance(found, Exchange)
    return found


class OpenExchanges:
    """Counts the requests that have not been recorded yet. On the event loop."""

    def __init__(self) -> None:
        self._n = 0
        self._none = asyncio.Event()
        self._none.set()

    @property
    def n_open(self) -> int:
        """How many there are."""
        return self._n

    def opened(self) -> None:
        """One more."""
        self._n += 1
        self._none.clear()

    def closed(self) -> None:
        """One less."""
        self._n -= 1
        if self._n == 0:
            self._none.set()

    async def wait(self) -> None:
        """Return once there are none."""
        await self._none.wait()


@dataclass(frozen=True, slots=True)
class Recording:
    """Where requests are counted and traced."""

    metrics: RequestMetrics
    exchanges: OpenExchanges
    tracer: Tracer | None
    """None: nothing is traced."""


class Records(Protocol):
    """What an application serves a request with, as far as it is about recording it."""

    @property
    def recording(self) -> Recording:
        """Where it is counted and traced."""
        ...

    @property
    def gateway(self) -> Gateway:
        """Whose limits and ledger it is in."""
        ...


class ExchangeMiddleware:
    """Opens an `Exchange` per request, adds headers (docs/rules.md#headers), and records how it ended."""

    def __init__(self, app: ASGIApp, current: Callable[[], Records]) -> None:
        """`current`: what a request that begins now is served with, to its end."""
        self._app = app
        self._current = current

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Call the application between opening and recording."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        path = scope["path"]
        current = self._current()
        recording, gateway = current.recording, current.gateway
        exchange = _open(recording.tracer, Headers(scope=scope), send)
        scope.setdefault("state", {}).update(exchange=exchange, serving=current)

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                exchange.status = message["status"]
                exchange.limit_state = await _limit_state(gateway, exchange)
                _add_headers(message, exchange)
            await send(message)

        recording.exchanges.opened()
        try:
            await self._app(scope, receive, send_with_headers)
        except asyncio.CancelledError:
            # A stop that waited for it in vain: nobody reads the answer.
            exchange.left = True
            raise
        finally:
            # Each whatever becomes of the others: a place that is not given back would be lost for good.
            try:
                if exchange.holds is not None:
                    exchange.holds.release()
                _record(recording, gateway, scope, path, exchange)
            finally:
                try:
                    await _settle(exchange)
                finally:
                    recording.exchanges.closed()


def _open(tracer: Tracer | None, headers: Headers, send: Send) -> Exchange:
    trace = trace_of(request_id(headers), headers)
    timeline = Timeline(time.perf_counter())
    if tracer is None:
        return Exchange(trace, timeline, send)
    span = tracer.begin(trace)
    return Exchange(span.trace, timeline, send, span)


async def _limit_state(gateway: Gateway, exchange: Exchange) -> LimitState:
    """What the key has left, for the answer's headers; empty where no key was needed."""
    if exchange.reservation is not None:
        return exchange.reservation.limit_state
    if exchange.grant is not None:
        return await gateway.limiter.limit_state(exchange.grant)
    return LimitState()


def _record(recording: Recording, gateway: Gateway, scope: Scope, path: str, exchange: Exchange) -> None:
    record = RequestRecord(
        request_id=exchange.request_id,
        method=scope["method"],
        path=path,
        route=route_label(scope),
        status=exchange.outcome if exchange.status is None else exchange.status,
        outcome=exchange.outcome,
        latency=time.perf_counter() - exchange.timeline.started,
        left=exchange.left,
        key_id=None if exchange.grant is None else exchange.grant.key_id,
        account_id=None if exchange.grant is None else exchange.grant.account_id,
        failure=exchange.failure,
        allowances=exchange.limit_state.figures(),
        completion=exchange.record(),
    )
    recording.metrics.observe(record)
    if record.completion is not None:
        gateway.ledger.write(usage_row(record, record.completion))
    if record.route not in QUIET_ROUTES:
        log_request(record)
        if exchange.span is not None:
            exchange.span.end(record, exchange.timeline)


async def _settle(exchange: Exchange) -> None:
    if exchange.reservation is not None:
        usage = exchange.usage()
        await exchange.reservation.settle(usage.prompt_tokens + usage.completion_tokens)


def usage_row(record: RequestRecord, completion: CompletionRecord) -> UsageRow:
    """The ledger's row for a completion request that has just ended."""
    return UsageRow(
        time=datetime.now(UTC),
        request_id=record.request_id,
        key_id=record.key_id,
        account_id=record.account_id,
        user=completion.user,
        model=completion.full_name,
        prompt_tokens=completion.prompt_tokens,
        cached_tokens=completion.cached_tokens,
        completion_tokens=completion.completion_tokens,
        estimated=completion.estimated,
        finish_reasons=completion.finish_reasons,
        latency=record.latency,
        status=record.outcome,
    )


def request_id(headers: Headers) -> str:
    """The client's own `x-request-id` if it is short and plain, else a new one."""
    sent = headers.get("x-request-id", "")
    return sent if _SANE_ID.fullmatch(sent) else f"req_{secrets.token_hex(16)}"


def route_label(scope: Scope) -> str:
    """The template of the request's route, or `unmatched`: never a path that a client made up."""
    return getattr(scope.get("route"), "path", "unmatched")


def _add_headers(message: Message, exchange: Exchange) -> None:
    headers = MutableHeaders(raw=message.setdefault("headers", []))
    headers["x-request-id"] = exchange.request_id
    headers["openai-processing-ms"] = str(round((time.perf_counter() - exchange.timeline.started) * 1000))
    headers["openai-version"] = "2020-10-01"
    for name, value in ratelimit_headers(exchange.limit_state):
        headers[name] = value
    if exchange.completion is not None:
        headers["openai-model"] = exchange.completion.model.encode("ascii", "replace").decode("ascii")
