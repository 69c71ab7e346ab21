"""uvicorn's HTTP protocol with limits on heads and connections, and errors in the API's shape.

What is refused here never becomes a request: no route, no log line, no headers of ours. Knows no application.
"""

from asyncio import AbstractEventLoop, BaseTransport, TimerHandle, Transport
from collections.abc import Callable
from http import HTTPStatus
from typing import Any, cast

from httptools import HttpParserError, HttpParserUpgrade, HttpRequestParser
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from typing_extensions import override
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from afterword.api.connections import Connections
from afterword.api.error_responses import INVALID, SERVER, Failure

MAX_HEAD = 64 * 1024
"""Bytes of request line and headers that may come before they end; what came with the first read is not counted."""

LINGER_SECONDS = 2.0
"""How long a refused client may go on sending. Closing with unread data resets the connection, and the client would
lose the answer."""

MUST_BE_HTTP_1 = b"This server speaks HTTP/1.1, not HTTP/2."
NO_HTTP_2 = b"".join(
    (
        # A frame is the length of its content, a type, flags, a stream: RFC 9113, 4.1. Settings come first, with none.
        b"\0\0\0\4\0\0\0\0\0",
        # GOAWAY: no stream was processed, error HTTP_1_1_REQUIRED, and a text for people.
        b"\0\0%c\7\0\0\0\0\0" % (8 + len(MUST_BE_HTTP_1)),
        b"\0\0\0\0\0\0\0\x0d" + MUST_BE_HTTP_1,
    )
)
"""What a client is told, in its own frames, that begins with HTTP/2 without having asked."""

OF_OFFERS = (b"upgrade", b"http2-settings")
"""Headers that offer another protocol, under the names that `Connection` lists."""


class HttpProtocol(HttpToolsProtocol):
    """One connection. A subclass because uvicorn has no settings for any of this; the methods it overrides are its own.

    The parser keeps a head in memory until it ends, so without a limit one client could fill it. And it does not read
    the body of a request that offers another protocol, though a server may ignore the offer (RFC 9110, 7.8).
    """

    def __init__(self, *args: Any, connections: Connections, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._connections = connections
        self._in_head = False
        self._n_head = 0
        self._refused = False
        self._offered = False
        """The head that has just ended offers another protocol: it is read again without the offer."""
        self._head = _Deadline(self.loop, self._connections.limits.head, self._head_is_late)
        self._reading = _Deadline(self.loop, self._connections.limits.stall, self._stalled)

    @override
    def connection_made(self, transport: BaseTransport) -> None:
        """Count it, and wait for a head."""
        super().connection_made(cast(Transport, transport))
        if self._connections.opened(self):
            self._head.start()
        else:
            # At once: while it lingers it would count towards the limit.
            self._refuse(503, "The server has as many connections as it takes.", SERVER, linger=0)

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        """Stop counting it, and its timers."""
        self._connections.closed(self)
        self._head.stop()
        self._reading.stop()
        super().connection_lost(exc)

    def drop(self) -> None:
        """Close the connection at once, as `Connections` asks for."""
        self.transport.abort()

    @override
    def data_received(self, data: bytes) -> None:
        """Parse, and count what belongs to a head that has not ended; drop what follows a refusal."""
        if self._refused:
            return
        self._unset_keepalive_if_required()
        began_before = self._in_head
        self._parse(data)
        if began_before and self._in_head:
            self._n_head += len(data)
            if self._n_head > MAX_HEAD:
                self._refuse(431, f"The request's headers are larger than {MAX_HEAD} bytes.")
        if not self._at_work and not self._refused:
            # It may have sent bytes that are not part of a head yet.
            self._head.start()

    @override
    def on_message_begin(self) -> None:
        """A head begins."""
        super().on_message_begin()
        self._in_head, self._n_head = True, 0
        self._head.start()

    @override
    def on_headers_complete(self) -> None:
        """It has ended."""
        self._in_head = False
        self._head.stop()
        self._offered = self.parser.should_upgrade() and self.parser.get_method() != b"CONNECT"
        if not self._offered:
            super().on_headers_complete()

    @override
    def on_message_complete(self) -> None:
        """The body has ended, if it is this request's: behind an offer the parser looks for none."""
        if not self._offered:
            super().on_message_complete()

    @override
    def on_response_complete(self) -> None:
        """The next request on the connection may begin."""
        super().on_response_complete()
        if not self._at_work:
            self._connections.idle(self)

    @override
    def pause_writing(self) -> None:
        """The client reads more slowly than it is written to."""
        super().pause_writing()
        self._reading.start()

    @override
    def resume_writing(self) -> None:
        """The client has caught up."""
        super().resume_writing()
        self._reading.stop()

    @override
    def send_400_response(self, msg: str) -> None:
        """Answer bytes that are no HTTP; `msg` is uvicorn's sentence, which says no more than that."""
        self._refuse(400, f"The connection carried no valid HTTP request. {msg}")

    @override
    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self._connections.busy(self)
        if cycle.scope["http_version"] == "1.0":
            # HTTP/1.0 has neither `100 Continue` nor chunks.
            cycle.waiting_for_100_continue = False
            app = _UntilClosed(app, cycle)
        super()._start_asgi_task(cycle, app)

    def _parse(self, data: bytes) -> None:
        while data:
            try:
                self.parser.feed_data(data)
                return
            except HttpParserUpgrade as found:
                if not self._offered:
                    return
                self._offered = False
                data = self._head_without_offer() + data[found.args[0] :]
                self.parser = _new_parser(self)
            except HttpParserError:
                if self.parser.get_method() == b"PRI":
                    self._end_with(NO_HTTP_2, LINGER_SECONDS)
                else:
                    self.send_400_response("Invalid HTTP request received.")
                return

    def _head_without_offer(self) -> bytes:
        head = b"%b %b HTTP/%b\r\n" % (self.parser.get_method(), self.url, self.parser.get_http_version().encode())
        for name, value in self.headers:
            if name == b"connection":
                value = b",".join(one for one in value.split(b",") if one.strip().lower() not in OF_OFFERS)
            if name not in OF_OFFERS:
                head += b"%b: %b\r\n" % (name, value)
        return head + b"\r\n"

    @property
    def _at_work(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _head_is_late(self) -> None:
        if self._at_work:
            # The head behind a request that is still being answered.
            self._head.start()
            return
        seconds = self._connections.limits.head
        self._connections.log_closed(f"no request within {seconds:g} s")
        if self._in_head:
            self._refuse(408, f"The request's headers did not come within {seconds:g} seconds.")
        else:
            self.transport.close()

    def _stalled(self) -> None:
        self._connections.log_closed(f"nothing of an answer read for {self._connections.limits.stall:g} s")
        self.transport.abort()

    def _refuse(self, status: int, message: str, kind: str = INVALID, linger: float = LINGER_SECONDS) -> None:
        """Answer without a request, and close after `linger` seconds: what follows cannot be parsed."""
        content = Failure(status, message, kind).body()
        head = f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\ncontent-type: application/json\r\n"
        length = f"content-length: {len(content)}\r\nconnection: close\r\n\r\n"
        self._end_with((head + length).encode("ascii") + content, linger)

    def _end_with(self, answer: bytes, linger: float) -> None:
        self._refused = True
        self._head.stop()
        self.transport.write(answer)
        self.transport.write_eof()
        self.loop.call_later(linger, self.transport.close)


class _Deadline:
    """Calls `late` so many seconds after `start`, unless it is stopped before."""

    def __init__(self, loop: AbstractEventLoop, seconds: float, late: Callable[[], None]) -> None:
        self._loop = loop
        self._seconds = seconds
        self._late = late
        self._timer: TimerHandle | None = None

    def start(self) -> None:
        """Begin to count; one that counts already goes on."""
        if self._timer is None:
            self._timer = self._loop.call_later(self._seconds, self._fire)

    def stop(self) -> None:
        """Stop counting."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _fire(self) -> None:
        self._timer = None
        self._late()


class _UntilClosed:
    """An application whose answers end with the connection, where nothing says how long they are: 1.0 has no chunks."""

    def __init__(self, app: ASGIApp, cycle: RequestResponseCycle) -> None:
        self._app = app
        self._cycle = cycle

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Have uvicorn write the body as it is."""

        async def send_plain(message: Message) -> None:
            if message["type"] == "http.response.start":
                self._cycle.chunked_encoding = False
            elif scope["method"] != "HEAD":
                # uvicorn compares what is written with what was announced.
                self._cycle.expected_content_length = len(message.get("body", b""))
            await send(message)

        await self._app(scope, receive, send_plain)


def _new_parser(protocol: HttpProtocol) -> HttpRequestParser:
    parser = HttpRequestParser(protocol)
    # As uvicorn's own.
    parser.set_dangerous_leniencies(lenient_data_after_close=True)
    return parser
