"""From the bytes of a request's body to one JSON object: encodings, sizes, syntax. Knows no field of it."""

import asyncio
import re
import zlib
from collections.abc import AsyncIterator
from json import loads as exact_loads
from typing import Any

import orjson
from starlette.requests import Request
from starlette.types import Receive

from afterword.api.disconnect import ClientLeft
from afterword.api.errors import Refused
from afterword.errors import InvalidRequest

MAX_DRAINED = 64 * 1024 * 1024
"""Bytes read and thrown away after a body proved too large, so that the client gets to read the 413."""

_LONG_NUMBER = re.compile(rb"[0-9]{19}")
_GZIP = 16 + zlib.MAX_WBITS

IDLE_SECONDS = 30.0
"""How long a body may stop coming before it counts as never coming."""

SLOWEST = 500
"""Bytes a second that must come in the long run, beside one such pause: a body that trickles holds its connection."""


async def read_object(request: Request, max_bytes: int) -> dict[str, Any]:
    """The request's body as a JSON object. Content-Type is ignored: some clients send none.

    Raises `Refused` (408 if nothing comes for `IDLE_SECONDS`, 413 over `max_bytes` as sent or inflated, 415 for other
    encodings than gzip), `InvalidRequest` for anything that is not an object in UTF-8 JSON, `ClientLeft`.
    """
    return parse_object(await read_body(request, max_bytes))


async def read_body(request: Request, max_bytes: int) -> bytes:
    """The body, inflated if it came as gzip. Errors as in `read_object`."""
    sink = _sink(request.headers.get("content-encoding", ""), max_bytes)
    n_received = 0
    pieces = _pieces(request.receive)
    async for piece in pieces:
        n_received += len(piece)
        if n_received > max_bytes or not sink.feed(piece):
            await _drain(pieces)
            raise Refused(413, f"The request's body is larger than the {max_bytes} bytes this server takes.")
    return sink.finish()


def parse_object(raw: bytes) -> dict[str, Any]:
    """`raw` as a JSON object; integers of any length stay exact. Raises `InvalidRequest`."""
    try:
        # orjson turns integers over 64 bit into floats, which would hide an out-of-range seed.
        data = orjson.loads(raw)
        if _LONG_NUMBER.search(raw):
            data = exact_loads(raw)
    except (ValueError, RecursionError) as error:
        raise InvalidRequest(f"The request's body is not valid JSON in UTF-8: {_reason(error)}.") from error
    if not isinstance(data, dict):
        raise InvalidRequest("The request's body must be a JSON object.")
    return data


def _reason(error: Exception) -> str:
    return str(error) if isinstance(error, orjson.JSONDecodeError) else "a number or the nesting is out of range"


async def _pieces(receive: Receive) -> AsyncIterator[bytes]:
    loop = asyncio.get_running_loop()
    due = loop.time() + IDLE_SECONDS
    while True:
        idle = loop.time() + IDLE_SECONDS
        try:
            async with asyncio.timeout_at(min(idle, due)):
                message = await receive()
        except TimeoutError:
            slow = f"came more slowly than {SLOWEST} bytes a second"
            why = slow if due < idle else f"stopped coming for {IDLE_SECONDS:g} seconds"
            raise Refused(408, f"The request's body {why}.") from None
        if message["type"] == "http.disconnect":
            raise ClientLeft
        piece = message.get("body", b"")
        due += len(piece) / SLOWEST
        yield piece
        if not message.get("more_body", False):
            return


async def _drain(pieces: AsyncIterator[bytes]) -> None:
    n_drained = 0
    async for piece in pieces:
        n_drained += len(piece)
        if n_drained > MAX_DRAINED:
            return


def _sink(encoding: str, max_bytes: int) -> "_Plain | _Gzip":
    match encoding.strip().lower():
        case "" | "identity":
            return _Plain()
        case "gzip" | "x-gzip":
            return _Gzip(max_bytes)
        case other:
            raise Refused(415, f"Content-Encoding '{other}' is not supported; send the body plain or as gzip.")


class _Plain:
    """Collects a body as it is; its size is the caller's to watch."""

    def __init__(self) -> None:
        self._body = bytearray()

    def feed(self, piece: bytes) -> bool:
        self._body += piece
        return True

    def finish(self) -> bytes:
        return bytes(self._body)


class _Gzip:
    """Inflates a body, never beyond `max_bytes` + 1: a small bomb costs no more than an honest body."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._body = bytearray()
        self._inflater = zlib.decompressobj(_GZIP)

    def feed(self, piece: bytes) -> bool:
        """Inflate a piece; False once the body is over the cap."""
        while piece:
            if self._inflater.eof:
                self._inflater = zlib.decompressobj(_GZIP)
            room = self._max_bytes + 1 - len(self._body)
            try:
                self._body += self._inflater.decompress(piece, room)
            except zlib.error as error:
                raise InvalidRequest("The request's body is not valid gzip.") from error
            if len(self._body) > self._max_bytes:
                return False
            # Input left over while there is room can only be the next member of the file.
            piece = self._inflater.unused_data
        return True

    def finish(self) -> bytes:
        if not self._inflater.eof:
            raise InvalidRequest("The request's gzip body ends too early.")
        return bytes(self._body)
