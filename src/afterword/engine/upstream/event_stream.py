"""Parses server-sent events: from the bytes of a response to the data of each event.

Lines end in LF, CR or CRLF; comments and fields other than `data` are skipped; a line may come in many pieces.
"""

from collections.abc import AsyncIterator

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
"""May begin a stream, and is no part of it (WHATWG HTML, 9.2.5)."""

MAX_EVENT_BYTES = 64 * 2**20
"""Longer events are refused: one that never ends would fill the memory."""


class EventTooLong(Exception):
    """An event is longer than `MAX_EVENT_BYTES`, or an answer longer than it can be."""


async def bounded(chunks: AsyncIterator[bytes], most_bytes: int) -> AsyncIterator[bytes]:
    """The chunks, as long as all of them together have no more than `most_bytes`. Raises `EventTooLong`."""
    n_bytes = 0
    async for chunk in chunks:
        n_bytes += len(chunk)
        if n_bytes > most_bytes:
            raise EventTooLong(f"more than {most_bytes} bytes")
        yield chunk


async def events(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """The data of each event that has any; several data lines are joined by line feeds. Raises `EventTooLong`.

    Data after the last blank line is an event too: some servers leave the final blank line out.
    """
    data: list[bytes] = []
    is_first = True
    async for line in _lines(chunks):
        if is_first:
            line, is_first = line.removeprefix(BYTE_ORDER_MARK), False
        if line == b"":
            if data:
                yield b"\n".join(data)
                data = []
            continue
        name, _, value = line.partition(b":")
        if name == b"data":
            data.append(value.removeprefix(b" "))
    if data:
        yield b"\n".join(data)


async def _lines(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    rest = bytearray()
    ended_in_cr = False
    async for chunk in chunks:
        # A CR at the end of the last chunk has ended its line; an LF right after it is the second half of a CRLF.
        new = chunk.removeprefix(b"\n") if ended_in_cr else chunk
        ended_in_cr = chunk.endswith(b"\r") if chunk else ended_in_cr
        rest += new
        if len(rest) > MAX_EVENT_BYTES:
            raise EventTooLong
        if b"\n" not in new and b"\r" not in new:
            continue
        lines = rest.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        rest = lines.pop()
        for line in lines:
            yield bytes(line)
    if rest:
        yield bytes(rest)
