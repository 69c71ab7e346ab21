"""The dialects give the same answers, but for what docs/rules.md#dialects says of each."""

import re
from typing import Any

import httpx
import pytest
from tests.api.requests import EVERY_FIELD, GREEDY, REQUESTS
from tests.api.served import CREATED, BreakingEngine, app_of, assert_error, client_of

from afterword.api.app import create_app
from afterword.config.tree import ServerConfig
from afterword.engine.echo import EchoEngine
from afterword.errors import EngineFailed
from afterword.fields.table import FIELDS
from afterword.registry import Registry, ServedModel

ENDS = {"/v1/completions": b"data: [DONE]\n\n", "/v5/completions": b"event: done\ndata: [DONE]\n\n"}
NAMES = {"/v1/completions": b"echo", "/v5/completions": b"local/echo"}
OWN_HEADERS = {"x-request-id", "openai-processing-ms", "content-length"}

ALL: list[Any] = [*REQUESTS, pytest.param(EVERY_FIELD, id="every field")]

IN_ORDER = EVERY_FIELD | {"guided_regex": ""}
"""Choices that have a form begin once that is made ready, elsewhere: their events come in any order."""
STREAMED: list[Any] = [*REQUESTS, pytest.param(IN_ORDER, id="every field")]

STREAM_OPTIONS: list[Any] = [
    pytest.param(None, id="no options"),
    pytest.param({"include_usage": True, "include_obfuscation": False}, id="usage"),
    pytest.param({"include_usage": True, "continuous_usage_stats": True}, id="running usage"),
]


async def ask(path: str, body: dict[str, Any], **settings: Any) -> httpx.Response:
    async with client_of(app_of(**settings)) as client:
        return await client.post(path, json=body)


def common(response: httpx.Response) -> bytes:
    """The answer without what the dialects differ in: the model's name and the end of the stream."""
    path = response.request.url.path
    name = b'"model":"%b"' % NAMES[path]
    assert name in response.content
    return masked(response).replace(name, b"*").removesuffix(ENDS[path])


def masked(response: httpx.Response) -> bytes:
    """The answer without what differs from request to request: id, time, padding."""
    return re.sub(rb'"id":"cmpl-\w{29}"|"created":\d{10}|"obfuscation":"\w*"', b"*", response.content)


def headers(response: httpx.Response) -> dict[str, str]:
    return {name: value for name, value in response.headers.items() if name not in OWN_HEADERS}


def test_the_request_with_every_field_has_every_field() -> None:
    assert {*EVERY_FIELD, "model", "stream", "stream_options"} == {field.name for field in FIELDS}


@pytest.mark.parametrize("body", ALL)
async def test_plain_answers_are_the_same_to_the_byte(body: dict[str, Any]) -> None:
    one, other = [await ask(path, {"seed": 1} | body) for path in ENDS]
    assert one.status_code == 200, one.text
    assert common(one) == common(other)
    assert headers(one) == headers(other)


@pytest.mark.parametrize("options", STREAM_OPTIONS)
@pytest.mark.parametrize("body", STREAMED)
async def test_streams_are_the_same_to_the_byte_but_for_their_end(body: dict[str, Any], options: Any) -> None:
    asked = {"seed": 1} | body | {"stream": True, "stream_options": options}
    one, other = [await ask(path, asked) for path in ENDS]
    assert one.status_code == 200, one.text
    assert one.content.endswith(ENDS["/v1/completions"])
    assert other.content.endswith(ENDS["/v5/completions"])
    assert other.content.count(b"event:") == 1
    assert common(one) == common(other)
    assert headers(one) == headers(other)


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
@pytest.mark.parametrize(
    "path",
    [
        "/v1/completions/",
        "/openai/v1/completions?api-version=preview",
        "/openai/deployments/echo/completions?api-version=2024-10-21",
        "/openai/deployments/local/echo/completions",
        "/v1/engines/default/completions",
    ],
)
async def test_every_route_of_a_dialect_gives_the_same_bytes(path: str, stream: bool) -> None:
    asked = (IN_ORDER if stream else EVERY_FIELD) | {"stream": stream}
    one, other = await ask("/v1/completions", asked), await ask(path, asked)
    assert one.status_code == 200, one.text
    assert masked(one) == masked(other)
    assert headers(one) == headers(other)


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
@pytest.mark.parametrize(
    ("body", "settings"),
    [
        pytest.param({"temperature": 3}, {}, id="range"),
        pytest.param({"max_tokens": "1"}, {}, id="type"),
        pytest.param({"prompt": [258]}, {}, id="token"),
        pytest.param({"suffix": "x"}, {}, id="no infill"),
        pytest.param({"n": 3, "best_of": 2}, {}, id="best_of below n"),
        pytest.param({"grammar": "x"}, {}, id="unsupported field"),
        pytest.param({"max_tokens": 100_000}, {}, id="context"),
        pytest.param({"model": "gone"}, {}, id="unknown model"),
        pytest.param({"unheard_of": 1}, {"strict": True}, id="strict"),
        pytest.param({"prompt": "x" * 2000}, {"max_body_bytes": 1000}, id="body too large"),
        pytest.param({}, {"api_key": "k-1"}, id="no key"),
    ],
)
async def test_refusals_are_the_same_to_the_byte(body: dict[str, Any], settings: dict[str, Any], stream: bool) -> None:
    one, other = [await ask(path, body | {"stream": stream}, **settings) for path in ENDS]
    assert one.status_code >= 400
    assert (one.status_code, one.content, headers(one)) == (other.status_code, other.content, headers(other))


async def test_an_error_within_a_stream_is_the_same_event() -> None:
    events = []
    for path in ENDS:
        async with client_of(app_of(BreakingEngine(EngineFailed("It broke."), 2))) as client:
            response = await client.post(path, json={"prompt": "hi", "stream": True})
        events.append(response.text.split("\n\n"))
    one, other = events
    assert one[-2].startswith('data: {"error":{')
    assert (one[-2:], len(one)) == (other[-2:], len(other))


def two_vendors() -> Registry:
    echo = ServedModel("echo", EchoEngine(), CREATED, aliases=("default", "old/name"))
    return Registry([echo, ServedModel("echo-2", EchoEngine(), CREATED, vendor="openai")])


@pytest.mark.parametrize(
    ("name", "answers"),
    [
        pytest.param("local/echo", "local/echo", id="full name"),
        pytest.param("openai/echo-2", "openai/echo-2", id="another vendor"),
        pytest.param("default", "local/echo", id="alias"),
        pytest.param("old/name", "local/echo", id="alias with a slash"),
        pytest.param(None, "local/echo", id="null"),
        pytest.param("", "local/echo", id="empty"),
        pytest.param(" ", "local/echo", id="blank"),
    ],
)
@pytest.mark.parametrize("path", ["/v5/completions", "/v5/completions/"])
async def test_which_model_answers(path: str, name: str | None, answers: str) -> None:
    async with client_of(create_app(two_vendors(), ServerConfig())) as client:
        plain = await client.post(path, json=GREEDY | {"model": name})
        stream = await client.post(path, json=GREEDY | {"model": name, "stream": True})
    assert plain.json()["model"] == answers
    assert f'"model":"{answers}"' in stream.text


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        pytest.param("echo", "send 'local/echo'.", id="short name"),
        pytest.param("echo-2", "send 'openai/echo-2'.", id="short name of another vendor's"),
        pytest.param("openai/echo", "answers to that name too.", id="another vendor"),
        pytest.param("local/local/echo", "answers to that name too.", id="two vendors"),
        pytest.param("/echo", "answers to that name too.", id="no vendor"),
        pytest.param("LOCAL/ECHO", "answers to that name too.", id="another case"),
    ],
)
async def test_other_names_are_refused_with_the_one_that_was_meant(name: str, hint: str) -> None:
    async with client_of(create_app(two_vendors(), ServerConfig())) as client:
        asked = await client.post("/v5/completions", json={"model": name})
        found = await client.get(f"/v5/models/{name}")
    for response in (asked, found):
        assert assert_error(response, 404, "model", "model_not_found")["message"].endswith(hint)
