"""Streams of other servers, as they end in practice."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractContextManager
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route
from tests.cli.conftest import Afterword

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


CHOICE = {"index": 0, "text": "a", "finish_reason": "stop", "logprobs": None}

NO_COMPLETIONS = [
    pytest.param("<html>Welcome</html>", id="a page"),
    pytest.param("", id="nothing"),
    pytest.param("[]", id="a list"),
    pytest.param("{}", id="no choices"),
    pytest.param('{"choices": []}', id="an empty list of choices"),
    pytest.param('{"choices": [{"message": {"content": "a"}}]}', id="a chat completion"),
    pytest.param('{"choices": [{"index": 0, "text": 1, "finish_reason": "stop"}]}', id="a text that is none"),
    pytest.param('{"choices": "a"}', id="choices that are none"),
]


def saying(content: str) -> Starlette:
    """A server whose every answer is this, with a status of 200."""

    async def answer(_: Request) -> Response:
        return Response(content, media_type="application/json")

    return Starlette(routes=[Route("/v1/completions", answer, methods=["POST"])])


@pytest.mark.parametrize("content", NO_COMPLETIONS)
@pytest.mark.parametrize(
    "command", [["complete", "x"], ["complete", "x", "--json"], ["complete", "x", "--n", "2"]], ids=" ".join
)
def test_what_is_no_completion_is_said_in_a_sentence(
    run_server: RunServer, afterword: Afterword, content: str, command: list[str]
) -> None:
    with run_server(saying(content)) as url:
        result = afterword(*command, "--url", url)
    assert (result.exit_code, result.stdout) == (1, "")
    assert len(result.stderr.splitlines()) == 1
    assert ("no completion" in result.stderr) or ("broke the stream off" in result.stderr)


@pytest.mark.parametrize(
    "logprobs", [None, {}, {"content": []}, {"token_logprobs": "many"}, {"token_logprobs": ["a"]}], ids=str
)
def test_a_server_without_log_probabilities_cannot_score(
    run_server: RunServer, afterword: Afterword, logprobs: object
) -> None:
    with run_server(saying(json.dumps({"choices": [CHOICE | {"logprobs": logprobs}]}))) as url:
        result = afterword("score", "-", "--url", url, stdin="a line\n")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "Line 1 was not scored: the server gives no log-probabilities" in result.stderr


def test_an_event_that_is_no_completion_ends_a_stream_in_a_sentence(run_server: RunServer) -> None:
    with pytest.raises(RemoteError, match="no completion"):
        read(run_server, [CHUNK, "data: <html>\n\n"])
