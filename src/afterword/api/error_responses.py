"""The one place where a failure becomes a status code and an error body (docs/rules.md#statuses).

Used before an answer has begun (a JSON response) and after (one event of the stream). Knows no route.
"""

import re
from dataclasses import dataclass

import orjson
import structlog
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from afterword.api.disconnect import ClientLeft
from afterword.api.exchange import exchange_of
from afterword.errors import (
    AfterwordError,
    DeadlineExceeded,
    EngineClosed,
    EngineLost,
    InvalidRequest,
    LimitExceeded,
    ModelNotFound,
    NeverFits,
    NotAuthenticated,
    NotPermitted,
    Overloaded,
    UpstreamFailed,
    UpstreamTimedOut,
)
from afterword.text.brief import brief

INVALID = "invalid_request_error"
SERVER = "server_error"

REPORTED = frozenset({500, 502, 504})
"""Statuses whose cause is only in the log."""


class HttpRefusal(Exception):
    """A failure of HTTP itself: the body's size, its encoding. The message is meant for the client."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


_UNREAD = (("connection", "close"),)
"""Sent when a body was not read to its end: the rest of it must not be parsed as the next request."""


NO_RETRY = (("x-should-retry", "false"),)
"""What keeps the official SDKs from trying again by themselves."""


@dataclass(frozen=True, slots=True)
class Failure:
    """An error as the client sees it."""

    status: int
    message: str
    type: str = INVALID
    param: str | None = None
    code: str | None = None
    headers: tuple[tuple[str, str], ...] = ()

    def body(self) -> bytes:
        """`{"error": {...}}` as JSON, always with the four keys."""
        error = {"message": self.message, "type": self.type, "param": self.param, "code": self.code}
        return orjson.dumps({"error": error})

    def response(self) -> Response:
        """The failure as an answer of its own."""
        headers = {**dict(self.headers), "content-type": "application/json"}
        return Response(self.body(), status_code=self.status, headers=headers)


def describe(error: Exception, scope: Scope) -> Failure:
    """The failure that the client gets for `error`, which is noted in the request's exchange; anything not meant for
    clients becomes a 500 without details.

    docs/rules.md#causes-stay
    """
    exchange_of(scope).failure = _name_of(error)
    match error:
        case InvalidRequest():
            return Failure(400, str(error), param=error.param, code=error.code)
        case NotAuthenticated():
            challenge = (("www-authenticate", "Bearer"),)
            return Failure(401, str(error), code="invalid_api_key", headers=challenge)
        case NotPermitted():
            return Failure(403, str(error), code="permission_denied")
        case ModelNotFound():
            return Failure(404, str(error), param="model", code="model_not_found")
        case LimitExceeded():
            return Failure(429, str(error), type=error.kind, code="rate_limit_exceeded", headers=_when(error))
        case NeverFits():
            return Failure(400, str(error), param="prompt", code="array_above_max_length")
        case Overloaded() | DeadlineExceeded() | EngineClosed() | EngineLost() | UpstreamFailed():
            return _of_servers(error)
        case HttpRefusal():
            return Failure(error.status, str(error), headers=_UNREAD if error.status in (408, 413) else ())
        case HTTPException():
            return _of_routing(error, scope)
        case _:
            return Failure(500, "The server failed while it worked on this request.", type=SERVER)


def _name_of(error: Exception) -> str:
    """A word for what went wrong, of which there are few: metrics have it as a label."""
    match error:
        case LimitExceeded():
            return f"{error.kind}_limit"
        case HTTPException() | HttpRefusal():
            return f"http_{error.status if isinstance(error, HttpRefusal) else error.status_code}"
        case AfterwordError():
            return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", type(error).__name__).lower()
        case _:
            return "server_error"


def _when(error: LimitExceeded) -> tuple[tuple[str, str], ...]:
    """When to retry. The official SDKs retry a 429 by themselves unless `x-should-retry` is false."""
    if error.retry_after is None:
        return NO_RETRY
    return (("retry-after", str(error.retry_after)),)


def _of_servers(error: Overloaded | DeadlineExceeded | EngineClosed | EngineLost | UpstreamFailed) -> Failure:
    """Errors that are not the client's and may be explained: this server is full or stops, a model's process has ended,
    or it or an upstream is too slow."""
    match error:
        case DeadlineExceeded():
            return Failure(504, str(error), type=SERVER, code="request_timed_out", headers=NO_RETRY)
        case Overloaded():
            later = (("retry-after", str(error.retry_after)),)
            return Failure(503, str(error), type=SERVER, code="overloaded", headers=later)
        case EngineClosed():
            return Failure(503, str(error), type=SERVER, code="stopping", headers=(("retry-after", "1"),))
        case EngineLost():
            later = (("retry-after", str(error.retry_after)),)
            return Failure(503, str(error), type=SERVER, code="engine_lost", headers=later)
        case UpstreamTimedOut():
            return Failure(504, str(error), type=SERVER, code="upstream_timed_out")
        case UpstreamFailed():
            return Failure(502, str(error), type=SERVER, code="upstream_failed")


def _of_routing(error: HTTPException, scope: Scope) -> Failure:
    headers = tuple((error.headers or {}).items())
    if error.status_code == 405:
        message = f"{scope['method']} is not allowed here; try {dict(headers).get('Allow', 'another method')}."
        return Failure(405, message, code="method_not_supported", headers=headers)
    if error.status_code == 404:
        return Failure(404, f"Invalid URL ({scope['method']} {brief(scope['path'])})", headers=headers)
    return Failure(error.status_code, error.detail, headers=headers)


def report(error: Exception, request_id: str) -> None:
    """Log the cause of a failure of ours or of an upstream's under the request's id; it is not in the answer."""
    log = structlog.get_logger("afterword.api")
    if isinstance(error, DeadlineExceeded):
        # The answer has it all.
        return
    if isinstance(error, UpstreamFailed):
        log.error("upstream failed", request_id=request_id, detail=error.detail)
    else:
        log.error("request failed", request_id=request_id, exc_info=error)


class FailureMiddleware:
    """Answers every exception of the application except cancellation.

    Only CORS and `ExchangeMiddleware` are outside it, so errors have their headers too. After the answer has begun an
    exception can only be logged and raised: the server then closes the connection.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Call the application and answer its exceptions."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begun = False

        async def watch(message: Message) -> None:
            nonlocal begun
            begun = True
            await send(message)

        try:
            await self._app(scope, receive, watch)
        except ClientLeft:
            exchange_of(scope).left = True
        except Exception as error:
            failure = describe(error, scope)
            if failure.status in REPORTED:
                report(error, exchange_of(scope).request_id)
            if begun:
                raise
            await failure.response()(scope, receive, send)
