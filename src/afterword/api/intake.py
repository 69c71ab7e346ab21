"""From the bytes of a request's body to one JSON object: encodings, sizes, syntax. Knows no field of it.

A body is inflated only when all of it has come: one that never ends costs no more memory than was sent.
"""

import asyncio
import re
import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from json import loads as exact_loads
from typing import Any

import orjson
from starlette.requests import Request
from starlette.types import Message, Receive

from afterword.api.disconnect import ClientLeft
from afterword.api.error_responses import HttpRefusal
from afterword.errors import EngineClosed, InvalidRequest, Overloaded
from afterword.text.brief import brief

MAX_DRAINED = 64 * 1024 * 1024
"""Bytes read and thrown away after a body proved too large, so that the client gets to read the 413."""

OBJECT = 15
ARRAY = 5
NAME = 4
"""What an object, an array and a field's name cost to read, in numbers of an array. Nobody else runs meanwhile."""

_LONG_NUMBER = re.compile(rb"[0-9]{19}")
_COSTS = {b",": 1, b":": NAME, b"[": ARRAY, b"{": OBJECT}
_SEARCHED = 1024 * 1024
_GZIP = 16 + zlib.MAX_WBITS
_GZIP_PIECE = 64 * 1024

IDLE_SECONDS = 30.0
"""Longest pause within a body."""

SLOWEST = 500
"""Bytes a second at least, on average and besides one such pause: a slow body keeps its connection occupied."""

UNCOUNTED = 64 * 1024
"""Bytes of each body that do not count towards the limit on all bodies, so that large ones cannot block small ones."""

MOST_INFLATED = 1032
"""Times its size that a gzip body can become."""


MOST_MEMBERS = 1024
"""Members of a gzip file. The data after each is copied, so members cost more than their size."""


class Intake:
    """Reads bodies, with a limit for each and one for all together. One for each application."""

    def __init__(self, max_bytes: int, max_bytes_together: int) -> None:
        """`max_bytes`: of a body, as sent and inflated. `max_bytes_together`: of all that are held at once."""
        self._max_bytes = max_bytes
        self._max_bytes_together = max_bytes_together
        self._inflating = asyncio.Lock()
        self._reading: set[asyncio.Timeout] = set()
        self._is_stopped = False
        self.n_held = 0
        """Bytes of bodies that are held now, without those that are not counted."""

    @asynccontextmanager
    async def body(self, request: Request) -> AsyncIterator[bytearray]:
        """The inflated body; its bytes count towards the limit until the context is left.

        Raises `HttpRefusal` (408 if it stops coming or trickles, 413 over `max_bytes`, 415 for other encodings than
        gzip), `Overloaded` if all bodies together are too large, `InvalidRequest` for broken gzip, `ClientLeft`,
        `EngineClosed` once it is stopped.
        """
        share = _Share(self)
        try:
            yield await self._read(request, share)
        finally:
            share.resize(0)

    def stop(self) -> None:
        """Wait for no more bodies."""
        self._is_stopped = True
        for timeout in self._reading:
            timeout.reschedule(0)

    def fits(self, n_more: int) -> bool:
        """Whether so many more bytes may be held."""
        return self.n_held + n_more <= self._max_bytes_together

    async def _read(self, request: Request, share: "_Share") -> bytearray:
        is_gzip = _is_gzip(request.headers.get("content-encoding", ""))
        body = bytearray()
        pieces = self._pieces(request.receive)
        async for piece in pieces:
            if len(body) + len(piece) > self._max_bytes:
                await _drain(pieces)
                raise self._too_large()
            if not share.resize(len(body) + len(piece)):
                await _drain(pieces)
                raise _all_too_large()
            body += piece
        return await self._inflate(body, share) if is_gzip else body

    async def _pieces(self, receive: Receive) -> AsyncIterator[bytes]:
        loop = asyncio.get_running_loop()
        due = loop.time() + IDLE_SECONDS
        while True:
            idle = loop.time() + IDLE_SECONDS
            message = await self._next(receive, min(idle, due), is_slow=due < idle)
            if message["type"] == "http.disconnect":
                raise ClientLeft
            piece = message.get("body", b"")
            due += len(piece) / SLOWEST
            yield piece
            if not message.get("more_body", False):
                return

    async def _next(self, receive: Receive, until: float, *, is_slow: bool) -> Message:
        """What the client sends by then; if nothing, `is_slow` says which limit that is."""
        timeout = asyncio.timeout_at(0 if self._is_stopped else until)
        self._reading.add(timeout)
        try:
            async with timeout:
                return await receive()
        except TimeoutError:
            if self._is_stopped:
                raise EngineClosed from None
            slow = f"came more slowly than {SLOWEST} bytes a second"
            why = slow if is_slow else f"stopped coming for {IDLE_SECONDS:g} seconds"
            raise HttpRefusal(408, f"The request's body {why}.") from None
        finally:
            self._reading.discard(timeout)

    async def _inflate(self, body: bytearray, share: "_Share") -> bytearray:
        # One at a time: meanwhile each counts as the most that it can inflate to, and most inflate to far less.
        async with self._inflating:
            if not share.resize(len(body) + min(self._max_bytes + 1, len(body) * MOST_INFLATED)):
                raise _all_too_large()
            inflated = await asyncio.to_thread(_inflated, body, self._max_bytes)
            share.resize(len(inflated))
        if len(inflated) > self._max_bytes:
            raise self._too_large()
        return inflated

    def _too_large(self) -> HttpRefusal:
        return HttpRefusal(413, f"The request's body is larger than the {self._max_bytes} bytes this server takes.")


class _Share:
    """The bytes of one body that count towards the limit on all."""

    def __init__(self, intake: Intake) -> None:
        self._intake = intake
        self._n_counted = 0

    def resize(self, n_bytes: int) -> bool:
        """Count so many bytes from now on; False, and nothing changed, if that exceeds the limit on all."""
        n_more = max(0, n_bytes - UNCOUNTED) - self._n_counted
        if n_more > 0 and not self._intake.fits(n_more):
            return False
        self._intake.n_held += n_more
        self._n_counted += n_more
        return True


def _all_too_large() -> Overloaded:
    return Overloaded("The server holds as many bytes of other requests' bodies as it takes; try again.", retry_after=1)


def parse_object(raw: bytes | bytearray, max_values: int) -> dict[str, Any]:
    """`raw` as a JSON object; integers of any length stay exact. Raises `InvalidRequest`, also over `max_values`."""
    if _n_values(raw) > max_values and _n_values(_without_strings(raw, max_values)) > max_values:
        raise InvalidRequest(
            f"The request's body has more than {max_values} values, where an object counts as {OBJECT}, an array "
            f"as {ARRAY} and the name of a field as {NAME}.",
            code="array_above_max_length",
        )
    try:
        # orjson turns integers over 64 bit into floats, which would hide an out-of-range seed.
        data = orjson.loads(raw)
        if _has_long_number(raw):
            data = exact_loads(raw)
    except (ValueError, RecursionError) as error:
        raise InvalidRequest(f"The request's body is not valid JSON in UTF-8: {_reason(error)}.") from error
    if not isinstance(data, dict):
        raise InvalidRequest("The request's body must be a JSON object.")
    return data


def _n_values(raw: bytes | bytearray) -> int:
    """What the values of a JSON text cost to read, in numbers of an array; marks within strings are counted too.

    Piece by piece, so that other threads have their turn: a search lets nobody else run.
    """
    return sum(
        cost * raw.count(mark, start, start + _SEARCHED)
        for mark, cost in _COSTS.items()
        for start in range(0, len(raw), _SEARCHED)
    )


def _without_strings(raw: bytes | bytearray, max_values: int) -> bytes:
    """What stands outside of strings; of a text with more than `max_values` strings, as many values as that."""
    bare = raw.replace(rb"\\", b"").replace(rb"\"", b"")
    if bare.count(b'"') > 2 * max_values:
        return b"," * (max_values + 1)
    return b"".join(bare.split(b'"')[::2])


def _has_long_number(raw: bytes | bytearray) -> bool:
    """Piece by piece, as above."""
    return any(_LONG_NUMBER.search(raw, start, start + _SEARCHED + 18) for start in range(0, len(raw), _SEARCHED))


def _reason(error: Exception) -> str:
    return str(error) if isinstance(error, orjson.JSONDecodeError) else "a number or the nesting is out of range"


async def _drain(pieces: AsyncIterator[bytes]) -> None:
    n_drained = 0
    async for piece in pieces:
        n_drained += len(piece)
        if n_drained > MAX_DRAINED:
            return


def _is_gzip(encoding: str) -> bool:
    match encoding.strip().lower():
        case "" | "identity":
            return False
        case "gzip" | "x-gzip":
            return True
        case other:
            raise HttpRefusal(
                415, f"Content-Encoding '{brief(other)}' is not supported; send the body plain or as gzip."
            )


def _inflated(body: bytearray, max_bytes: int) -> bytearray:
    """The content of a gzip file of one or more members, at most `max_bytes` + 1 of it. Raises `InvalidRequest`."""
    content = bytearray()
    inflater = zlib.decompressobj(_GZIP)
    n_members = 1
    for start in range(0, len(body), _GZIP_PIECE):
        piece = bytes(body[start : start + _GZIP_PIECE])
        while piece:
            if inflater.eof:
                # Data after the end of a member is the next member of the file.
                inflater = zlib.decompressobj(_GZIP)
                n_members += 1
            if n_members > MOST_MEMBERS:
                raise InvalidRequest(f"The request's gzip body has more than {MOST_MEMBERS} members.")
            try:
                content += inflater.decompress(piece, max_bytes + 1 - len(content))
            except zlib.error as error:
                raise InvalidRequest("The request's body is not valid gzip.") from error
            if len(content) > max_bytes:
                return content
            piece = inflater.unused_data
    if not inflater.eof:
        raise InvalidRequest("The request's gzip body ends too early.")
    return content
