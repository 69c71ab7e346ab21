"""HTTP on the wire: uvicorn's protocol with a bound on a request's head, and its refusals in the API's shape.

What is refused here never becomes a request: no route, no log line, no headers of ours. Knows no application.
"""

from http import HTTPStatus

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from afterword.api.errors import Failure

MAX_HEAD = 64 * 1024
"""Bytes of request line and headers that may come before they end; what came with the first read is not counted."""


LINGER_SECONDS = 2.0
"""How long a refused client may go on sending. Closing on data that nobody has read resets the connection, and the
client would lose the answer."""


class HttpProtocol(HttpToolsProtocol):
    """One connection. A subclass because uvicorn has no setting for either; the methods it overrides are its own.

    The parser keeps a head in memory until it ends, so without a bound one client could fill it.
    """

    _in_head = False
    _n_head = 0
    _refused = False

    def data_received(self, data: bytes) -> None:
        """Parse, and count what belongs to a head that has not ended; drop what follows a refusal."""
        if self._refused:
            return
        began_before = self._in_head
        super().data_received(data)
        if began_before and self._in_head:
            self._n_head += len(data)
            if self._n_head > MAX_HEAD:
                self._refuse(431, f"The request's headers are larger than {MAX_HEAD} bytes.")

    def on_message_begin(self) -> None:
        """A head begins."""
        super().on_message_begin()
        self._in_head, self._n_head = True, 0

    def on_headers_complete(self) -> None:
        """It has ended."""
        self._in_head = False
        super().on_headers_complete()

    def send_400_response(self, msg: str) -> None:
        """Answer bytes that are no HTTP; `msg` is uvicorn's sentence, which says no more than that."""
        self._refuse(400, f"The connection carried no valid HTTP request. {msg}")

    def _refuse(self, status: int, message: str) -> None:
        """Answer without a request and close in a while: nothing that follows can be understood."""
        self._refused = True
        content = Failure(status, message).body()
        head = f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\ncontent-type: application/json\r\n"
        length = f"content-length: {len(content)}\r\nconnection: close\r\n\r\n"
        self.transport.write((head + length).encode("ascii") + content)
        self.transport.write_eof()
        self.loop.call_later(LINGER_SECONDS, self.transport.close)
