"""How the Go, Java, Ruby and PHP SDKs read an answer, as strict readers: nobody needs those toolchains for a test."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from tests.clients.replay.wire import Json, Wire, require

MAX_LINE = 32 * 1024 * 1024
"""The longest line that the Go SDK's scanner takes; a plain scanner stops at 64 KiB."""

ASK: Json = {"model": "echo", "prompt": "hello ", "max_tokens": 4, "temperature": 0, "logprobs": 2}


def go(raw: bytes) -> list[Json]:
    """Line by line; an event ends at an empty line; anything that begins with `[DONE]` ends the stream."""
    chunks: list[Json] = []
    data = b""
    for line in raw.split(b"\n"):
        assert len(line) <= MAX_LINE
        name, _, value = line.partition(b":")
        if name == b"data":
            data += value.removeprefix(b" ") + b"\n"
        elif line == b"" and data != b"":
            if data.startswith(b"[DONE]"):
                return chunks
            chunk = json.loads(data)
            assert "error" not in chunk, "the key alone is a failure"
            chunks.append(chunk)
            data = b""
    raise AssertionError("the stream has no end")


def java(raw: bytes) -> list[Json]:
    """As Go; fields are read through getters that throw on a missing or null one."""
    chunks: list[Json] = []
    lines = raw.decode().splitlines()
    for line in lines:
        if line == "data: [DONE]":
            break
        if line:
            assert line.startswith("data: ")
            chunk = json.loads(line.removeprefix("data: "))
            assert "error" not in chunk
            chunks.append(chunk)
    for chunk in chunks:
        require(chunk, id=str, choices=list, created=int, model=str, object=str)
        for choice in chunk["choices"]:
            require(choice, text=str, index=int)
            assert "logprobs" in choice
            assert "finish_reason" in choice
    return chunks


def ruby(raw: bytes) -> list[Json]:
    """Splits at any line break of Unicode; `[DONE]` must be all of its event; `error` matches even when it is null."""
    chunks: list[Json] = []
    done = False
    for line in raw.decode().splitlines():
        assert not (done and line), "something after the end"
        if line == "data: [DONE]":
            done = True
        elif line:
            chunk = json.loads(line.removeprefix("data: "))
            assert "error" not in chunk
            chunks.append(chunk)
    assert done
    return chunks


READERS = pytest.mark.parametrize("read", [go, java, ruby], ids=["Go", "Java", "Ruby"])
Reader = Callable[[bytes], list[Json]]


@READERS
def test_a_stream(wire: Wire, read: Reader) -> None:
    body = ASK | {"stream": True, "stream_options": {"include_usage": True}}
    response = wire.post(body, Accept="text/event-stream", **{"Accept-Encoding": "identity"})
    assert response.headers["content-type"].split(";")[0] == "text/event-stream"
    assert "content-encoding" not in response.headers
    *chunks, last = read(response.content)
    assert "".join(chunk["choices"][0]["text"] for chunk in chunks) == "hell"
    assert [chunk["choices"][0]["finish_reason"] for chunk in chunks] == [None, None, None, "length"]
    assert (last["choices"], last["usage"]["total_tokens"]) == ([], 10)


@READERS
def test_line_breaks_of_unicode_stay_inside_their_event(wire: Wire, read: Reader) -> None:
    text = "a\u2028b\u2029c\u0085d\r\ne\x0bf\x1cg data: [DONE]\n\n"
    body = {"model": "echo", "prompt": text, "max_tokens": len(text.encode()), "temperature": 0, "stream": True}
    chunks = read(wire.post(body).content)
    assert "".join(chunk["choices"][0]["text"] for chunk in chunks) == text


@READERS
def test_a_long_event_is_one_line(wire: Wire, read: Reader) -> None:
    body = ASK | {"prompt": "0123456789" * 200, "echo": True, "logprobs": 20, "max_tokens": 1, "stream": True}
    raw = wire.post(body).content
    assert max(map(len, raw.split(b"\n"))) > 64 * 1024
    assert len(read(raw)[0]["choices"][0]["logprobs"]["tokens"]) == 2000


def required(answer: Json) -> None:
    """What the getters of the Java SDK and the constructors of the PHP SDK need."""
    assert "error" not in answer
    require(answer, id=str, object=str, created=int, model=str, choices=list, usage=dict)
    require(answer["usage"], prompt_tokens=int, completion_tokens=int, total_tokens=int)
    for choice in answer["choices"]:
        require(choice, text=str, index=int, finish_reason=str)
        if choice["logprobs"] is not None:
            assert set(choice["logprobs"]) == {"tokens", "token_logprobs", "top_logprobs", "text_offset"}


@pytest.mark.parametrize(
    "more",
    [{}, {"logprobs": 0}, {"logprobs": None}, {"n": 2}, {"max_tokens": 0}, {"echo": True}, {"prompt": None}],
    ids=["top 2", "top 0", "without", "two", "empty", "echo", "no prompt"],
)
def test_every_required_field_is_there(wire: Wire, more: Json) -> None:
    required(wire.post(ASK | more).json())


@pytest.mark.parametrize(
    ("more", "status"),
    [({"temperature": 3}, 400), ({"model": "gone"}, 404), ({"prompt": {}}, 400), ({"max_tokens": 9000}, 400)],
    ids=["range", "model", "type", "context"],
)
@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
def test_an_error_has_what_the_exceptions_are_made_of(wire: Wire, more: Json, status: int, stream: bool) -> None:
    response = wire.send(ASK | more | {"stream": stream})
    assert (response.status_code, response.headers["content-type"]) == (status, "application/json")
    error: dict[str, Any] = response.json()["error"]
    # Go declares all four; two of them may be null.
    assert list(error) == ["message", "type", "param", "code"]
    require(error, message=str, type=str, param=str)
    assert response.headers["x-request-id"] != ""
    assert response.headers.get("x-should-retry") != "true"
