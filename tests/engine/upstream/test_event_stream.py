"""Server-sent events, however their bytes are cut."""

from collections.abc import AsyncIterator, Iterable
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from afterword.engine.upstream import event_stream
from afterword.engine.upstream.event_stream import EventTooLong, events


async def chunks(parts: Iterable[bytes]) -> AsyncIterator[bytes]:
    for part in parts:
        yield part


async def read(*parts: bytes) -> list[bytes]:
    return [data async for data in events(chunks(parts))]


@pytest.mark.parametrize(
    ("stream", "expected"),
    [
        pytest.param(b"data: a\n\ndata: b\n\n", [b"a", b"b"], id="LF"),
        pytest.param(b"data: a\r\n\r\ndata: b\r\n\r\n", [b"a", b"b"], id="CRLF"),
        pytest.param(b"data: a\r\rdata: b\r\r", [b"a", b"b"], id="CR"),
        pytest.param(b": ping\n\ndata: a\n\n: ping\n\n", [b"a"], id="comments"),
        pytest.param(b"event: x\nid: 3\nretry: 5\ndata: a\n\n", [b"a"], id="other fields"),
        pytest.param(b"data: a\ndata: b\n\n", [b"a\nb"], id="two lines of data"),
        pytest.param(b"data:a\n\ndata:  b\n\n", [b"a", b" b"], id="one space is not data"),
        pytest.param(b"data: a: b\n\n", [b"a: b"], id="a colon in the data"),
        pytest.param(b"data: a\n\ndata: b", [b"a", b"b"], id="no end"),
        pytest.param(b"data:\n\n", [b""], id="empty data"),
        pytest.param(b"\n\n\n", [], id="blank lines"),
        pytest.param(b"", [], id="nothing"),
        pytest.param("data: ä\u2028\u0085z\n\n".encode(), ["ä\u2028\u0085z".encode()], id="only CR and LF end lines"),
    ],
)
async def test_events_are_told_apart(stream: bytes, expected: list[bytes]) -> None:
    assert await read(stream) == expected
    assert await read(*(stream[i : i + 1] for i in range(len(stream)))) == expected


@given(
    lines=st.lists(st.sampled_from([b"data: x", b"data: yy", b"", b": c", b"\xff"]), max_size=12),
    end=st.sampled_from([b"\n", b"\r\n", b"\r"]),
    cuts=st.lists(st.integers(0, 120), max_size=8),
)
async def test_cuts_change_nothing(lines: list[bytes], end: bytes, cuts: list[int]) -> None:
    stream = b"".join(line + end for line in lines)
    edges = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
    parts = [stream[a:b] for a, b in pairwise(edges)]
    assert await read(*parts) == await read(stream)


async def test_an_event_without_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_stream, "MAX_EVENT_BYTES", 100)
    assert await read(b"data: " + b"x" * 90 + b"\n\n") == [b"x" * 90]
    with pytest.raises(EventTooLong):
        await read(b"data: ", *[b"x" * 30] * 5)
