"""A vendor's answer cut at every byte: what is charged is what had come whole, and the answer says the same."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Literal

import pytest
from tests.api.vendors import Counting, counting_of, vendor_engine
from tests.engine.upstream.fakes import frame, text_event, usage_event

Framing = Literal["chunked", "until closed", "plain"]

PROMPT = {"prompt": "h\u00e9llo, said the cat to the dog", "max_tokens": 50}
"""Of 32 bytes, about 8 tokens."""

TEXTS = [frame(text_event(text)) for text in "abc"]
END = frame(text_event("", finish="stop"))
USAGE = frame(usage_event(11, 4))
WHOLE = json.dumps(text_event("abc", finish="stop") | {"usage": usage_event(11, 4)["usage"]}).encode()


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def parts_of(framing: Framing) -> list[bytes]:
    """An answer: its head, then one part for each event, then its end."""
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
    events = [*TEXTS, END, USAGE, b"data: [DONE]\n\n"]
    match framing:
        case "chunked":
            return [head + b"transfer-encoding: chunked\r\n\r\n", *map(chunk, events), b"0\r\n\r\n"]
        case "until closed":
            return [head + b"connection: close\r\n\r\n", *events, b""]
        case "plain":
            json_head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
            return [json_head % len(WHOLE), WHOLE]


class CutVendor:
    """Sends as much of an answer as it is told to, and closes."""

    def __init__(self) -> None:
        self.answer = b""

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            if head.startswith(b"POST"):
                n = next(int(line[15:]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:"))
                await reader.readexactly(n)
                writer.write(self.answer)
            else:
                writer.write(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
            await writer.drain()
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()


@asynccontextmanager
async def cut_vendor() -> AsyncIterator[tuple[CutVendor, str]]:
    vendor = CutVendor()
    async with await asyncio.start_server(vendor.talk, "127.0.0.1", 0) as server:
        yield vendor, f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
@pytest.mark.parametrize("framing", ["chunked", "until closed", "plain"])
async def test_gate_02_an_answer_cut_anywhere_is_charged_as_far_as_it_came(framing: Framing, stream: bool) -> None:
    parts = parts_of(framing)
    async with cut_vendor() as (vendor, url):
        # Else the breaker would refuse after a few.
        engine = await asyncio.to_thread(vendor_engine, url, {"failures": 100_000})
        try:
            for n in range(len(b"".join(parts)) + 1):
                counting = counting_of(engine)
                vendor.answer = b"".join(parts)[:n]
                await check(counting, parts, n, stream=stream)
        finally:
            await engine.aclose()


async def check(counting: Counting, parts: Sequence[bytes], n: int, *, stream: bool) -> None:
    n_whole = n_came(parts, n)
    async with counting.client() as client:
        response = await client.post("/v1/completions", json=PROMPT | {"stream": stream})
    [row] = counting.ledger.rows
    assert await counting.tokens_used() == row.prompt_tokens + row.completion_tokens
    n_texts = min(len(TEXTS), n_whole)
    counted = (row.status, row.prompt_tokens, row.completion_tokens, row.estimated)
    told_ending = n_whole > len(TEXTS)
    said = f"cut after {n} bytes: {b''.join(parts)[:n][-80:]!r}"
    if len(parts) == 2:
        assert counted == ((200, 11, 4, False) if n_whole else (502, 0, 0, False)), said
    elif n_whole > len(TEXTS) + 1:
        assert counted == (200, 11, 4, False), said
    elif told_ending:
        # The counts were cut off.
        assert counted == (200, 8, 3, True), said
    else:
        assert counted == (502, 8 if n_texts else 0, n_texts, n_texts > 0), said
    assert response.status_code == (200 if stream and n_texts else row.status), said
    assert ('"error"' in response.text) == (row.status != 200), said


def n_came(parts: Sequence[bytes], n: int) -> int:
    """Events of which every byte that matters is among the first `n`."""
    came, end = 0, len(parts[0])
    for part in parts[1:]:
        end += len(part)
        # The two bytes behind an event that is chunked, or that is the last before its connection closes, say nothing.
        if n < end - (2 if len(parts) > 2 else 0):
            break
        came += 1
    return came
