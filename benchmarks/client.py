"""The client of every measurement: one connection a request, arrivals stamped as the bytes come. Knows no workload."""

import asyncio
import json
import time
from typing import Any, cast

from benchmarks.arrivals import Part, Stream, read_stream
from httptools import HttpResponseParser

SECONDS_A_REQUEST = 600
"""A request that takes longer has failed."""


class Refused(Exception):
    """The server answered with an error, or with something other than what was asked for."""


class Client:
    """Sends requests to one server on 127.0.0.1."""

    def __init__(self, port: int, model: str, address: str = "127.0.0.1") -> None:
        """`address`: this side's, any of the loopback network."""
        self._port = port
        self._model = model
        self._address = address

    def at(self, address: str) -> "Client":
        """A client with another address: somebody else to a server that tells them apart by it."""
        return Client(self._port, self._model, address)

    async def stream(self, body: dict[str, Any]) -> Stream:
        """One streamed completion. Raises `Refused`, `OSError` or `TimeoutError`."""
        options = {"stream": True, "stream_options": {"include_usage": True}}
        started = time.perf_counter()
        reply = await self._post({**body, **options})
        ended = time.perf_counter()
        try:
            return read_stream(started, reply.parts, ended)
        except ValueError as error:
            raise Refused(str(error)) from error

    async def complete(self, body: dict[str, Any]) -> tuple[float, dict[str, Any]]:
        """Seconds until the whole answer was there, and the answer. Raises like `stream`."""
        started = time.perf_counter()
        reply = await self._post(body)
        seconds = time.perf_counter() - started
        answer: dict[str, Any] = json.loads(reply.body)
        return seconds, answer

    async def _post(self, body: dict[str, Any]) -> "Reply":
        content = {"model": self._model, **body}
        return await exchange(self._port, "POST", "/v1/completions", content, self._address)


class Reply(asyncio.Protocol):
    """One answer being received on one connection."""

    def __init__(self, request: bytes) -> None:
        self.parts: list[Part] = []
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._request = request
        self._parser = HttpResponseParser(self)

    @property
    def status(self) -> int:
        """HTTP status; once `done`."""
        return int(self._parser.get_status_code())

    @property
    def body(self) -> bytes:
        """Everything received so far."""
        return b"".join(data for _, data in self.parts)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send the request."""
        # uvloop's transports have the methods, but not the class.
        cast(asyncio.Transport, transport).write(self._request)

    def data_received(self, data: bytes) -> None:
        """Take what came; the parser calls `on_body` and `on_message_complete`."""
        self._parser.feed_data(data)

    def on_body(self, data: bytes) -> None:
        """Stamp a part of the body."""
        self.parts.append((time.perf_counter(), data))

    def on_message_complete(self) -> None:
        """The answer is whole."""
        if not self.done.done():
            self.done.set_result(None)

    def connection_lost(self, error: Exception | None) -> None:
        """A connection that ends before the answer does has failed."""
        if not self.done.done():
            self.done.set_exception(error or ConnectionError("the server closed the connection"))


async def exchange(
    port: int, method: str, path: str, body: dict[str, Any] | None = None, address: str = "127.0.0.1"
) -> Reply:
    """Send one request and wait for the whole answer. Raises `Refused` for any status but 200."""
    content = b"" if body is None else json.dumps(body).encode()
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(SECONDS_A_REQUEST):
        transport, reply = await loop.create_connection(
            lambda: Reply(request_bytes(port, method, path, content)), "127.0.0.1", port, local_addr=(address, 0)
        )
        try:
            await reply.done
        finally:
            transport.close()
    if reply.status != 200:
        raise Refused(f"{reply.status} {reply.body[:200].decode(errors='replace')}")
    return reply


def request_bytes(port: int, method: str, path: str, content: bytes) -> bytes:
    """An HTTP/1.1 request with a JSON body."""
    head = (
        f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(content)}\r\n\r\n"
    )
    return head.encode() + content
