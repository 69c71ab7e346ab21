"""Streams of other servers, as they end in practice."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractContextManager
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.routing import Route

from afterword.cli.backend import Ending
from afterword.cli.remote_backend import RemoteBackend, RemoteError

CHUNK = 'data: {"choices":[{"text":"a","index":0,"finish_reason":null}]}\n\n'
END = 'data: {"choices":[{"text":"","index":0,"finish_reason":"stop"}]}\n\n'
USAGE = 'data: {"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":1}}\n\n'
ERROR = 'data: {"error":{"message":"The engine failed.","type":"server_error","param":null,"code":null}}\n\n'
DONE = "data: [DONE]\n\n"

RunServer = Callable[[Any], AbstractContextManager[str]]


def sending(events: list[str]) -> Starlette:
    """A server whose every completion is these events."""

    async def answer(_: Request) -> StreamingResponse:
        async def body() -> AsyncIterator[str]:
            for event in events:
                yield event

        return StreamingResponse(body(), media_type="text/event-stream")

    return Starlette(routes=[Route("/v1/completions", answer, methods=["POST"])])


def read(run_server: RunServer, events: list[str]) -> tuple[str, Ending]:
    texts: list[str] = []

    async def stream(url: str) -> Ending:
        source = RemoteBackend(url, None, None)
        try:
            return await source.stream({"prompt": "x"}, texts.append)
        finally:
            await source.aclose()

    with run_server(sending(events)) as url:
        ending = asyncio.run(stream(url))
    return "".join(texts), ending


@pytest.mark.parametrize(
    ("events", "ending"),
    [
        pytest.param([CHUNK, END, USAGE, DONE], Ending("stop", 3, 1), id="usage"),
        pytest.param([CHUNK, END, DONE], Ending("stop", 0, 0), id="a server without usage"),
        pytest.param(["\ufeff" + CHUNK, END, USAGE, DONE], Ending("stop", 3, 1), id="gate-05 a byte order mark"),
        pytest.param([": ping\n\n", CHUNK.replace("data: ", "data:"), END], Ending("stop", 0, 0), id="other framing"),
    ],
)
def test_a_stream_ends_with_its_reason_and_counts(run_server: RunServer, events: list[str], ending: Ending) -> None:
    assert read(run_server, events) == ("a", ending)


@pytest.mark.parametrize(
    ("events", "message"),
    [
        pytest.param([CHUNK, ERROR], "The engine failed.", id="error event"),
        pytest.param([CHUNK], "The server broke the stream off.", id="broken off"),
        pytest.param([CHUNK, DONE], "The server broke the stream off.", id="done without a reason"),
    ],
)
def test_a_stream_that_does_not_finish_is_an_error(run_server: RunServer, events: list[str], message: str) -> None:
    with pytest.raises(RemoteError, match=message):
        read(run_server, events)
