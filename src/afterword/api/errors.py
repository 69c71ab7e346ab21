"""The one place where a failure becomes a status code and an error body (docs/rules.md#statuses).

Used before an answer has begun (a JSON response) and after (one event of the stream). Knows no route.
"""

from dataclasses import dataclass

import orjson
import structlog
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from afterword.api.disconnect import ClientLeft
from afterword.api.exchange import exchange_of
from afterword.errors import (
    InvalidRequest,
    LimitExceeded,
    ModelNotFound,
    NotAuthenticated,
    NotPermitted,
    Overloaded,
    UpstreamFailed,
    UpstreamTimedOut,
)

INVALID = "invalid_request_error"
SERVER = "server_error"

REPORTED = frozenset({500, 502, 504})
"""Statuses whose cause only the log tells."""


class Refused(Exception):
    """A failure that only HTTP knows: the body's size, its encoding. The message is fit for the client."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


_UNREAD = (("connection", "close"),)
"""Goes with an answer to a body that was not read to its end: what still comes must not be taken for a request."""


@dataclass(frozen=True, slots=True)
class Failure:
    """What the client is told about an error."""

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
    """The failure that `error` is to the client; anything not meant for it becomes a bare 500.

    docs/rules.md#causes-stay
    """
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
        case Overloaded() | UpstreamFailed():
            return _of_servers(error)
        case Refused():
            return Failure(error.status, str(error), headers=_UNREAD if error.status in (408, 413) else ())
        case HTTPException():
            return _of_routing(error, scope)
        case _:
            return Failure(500, "The server failed while it worked on this request.", type=SERVER)


def _when(error: LimitExceeded) -> tuple[tuple[str, str], ...]:
    """When to come back. The official SDKs repeat a 429 by themselves unless they are told not to."""
    if error.retry_after is None:
        return (("x-should-retry", "false"),)
    return (("retry-after", str(error.retry_after)),)


def _of_servers(error: Overloaded | UpstreamFailed) -> Failure:
    """What is no mistake of the client's and no secret: this server is full, or the one behind it does not answer."""
    match error:
        case Overloaded():
            later = (("retry-after", str(error.retry_after)),)
            return Failure(503, str(error), type=SERVER, code="overloaded", headers=later)
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
        return Failure(404, f"Invalid URL ({scope['method']} {scope['path']})", headers=headers)
    return Failure(error.status_code, error.detail, headers=headers)


def report(error: Exception, request_id: str) -> None:
    """Log the cause of a failure of ours or of an upstream's under the request's id; the client learns none of it."""
    log = structlog.get_logger("afterword.api")
    if isinstance(error, UpstreamFailed):
        log.error("upstream failed", request_id=request_id, detail=error.detail)
    else:
        log.error("request failed", request_id=request_id, exc_info=error)


class FailureMiddleware:
    """Answers every exception that leaves the application; nothing passes it but cancellation.

    The outermost layer but for CORS and the request's bookkeeping, so errors carry those headers too. An exception
    after the answer has begun can only be logged: the server then cuts the connection.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on, and answer what comes back raised."""
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
