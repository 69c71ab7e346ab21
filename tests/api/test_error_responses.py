"""Failures as clients see them, and what is kept from them."""

import json
from typing import Any

import pytest
from structlog.testing import capture_logs
from tests.api.folding import events_of
from tests.api.served import BreakingEngine, app_of, assert_error, client_of

from afterword.config.tree import MAX_CANDIDATES
from afterword.engine.echo import EchoEngine
from afterword.errors import EngineFailed, UpstreamFailed, UpstreamTimedOut

SECRET = "tensor 7 of /models/secret.gguf"


def broken() -> EngineFailed:
    error = EngineFailed("The engine broke.")
    error.__cause__ = RuntimeError(SECRET)
    return error


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/v1/nothing", 404, None),
        ("POST", "/v1/chat/completions/", 404, None),
        ("GET", "/v1/completions", 405, "method_not_supported"),
        ("DELETE", "/v1/models/echo", 405, "method_not_supported"),
        ("OPTIONS", "/v1/completions", 405, "method_not_supported"),
    ],
)
async def test_unknown_routes_and_methods(method: str, path: str, status: int, code: str | None) -> None:
    async with client_of(app_of()) as client:
        response = await client.request(method, path)
    message = assert_error(response, status, None, code)["message"]
    if status == 404:
        assert message == f"Invalid URL ({method} {path.rstrip('/')})"


@pytest.mark.parametrize(
    ("path", "allowed"),
    [
        ("/v1/completions", "POST"),
        ("/v1/engines/echo/completions/", "POST"),
        ("/v1/models/echo", "GET"),
        ("/health", "GET, HEAD"),
    ],
)
async def test_a_refused_method_is_told_every_method_of_its_path(path: str, allowed: str) -> None:
    async with client_of(app_of()) as client:
        response = await client.delete(path)
    message = assert_error(response, 405, None, "method_not_supported")["message"]
    assert response.headers["allow"] == allowed
    assert message == f"DELETE is not allowed here; try {allowed}."


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("error", [pytest.param(broken(), id="engine"), pytest.param(KeyError(SECRET), id="bug")])
async def test_a_failure_before_the_first_token_is_a_500_that_tells_nothing(error: Exception, stream: bool) -> None:
    headers = {"x-request-id": "mine-1", "origin": "https://page.example"}
    with capture_logs() as logs:
        async with client_of(app_of(BreakingEngine(error, 1), cors_origins=("*",)), **headers) as client:
            response = await client.post("/v1/completions", json={"prompt": "hi", "stream": stream})
    assert_error(response, 500, None, None)
    assert "secret" not in response.text
    assert response.headers["access-control-expose-headers"]
    [failure] = [line for line in logs if line["event"] == "request failed"]
    assert failure["request_id"] == "mine-1"
    assert failure["exc_info"] is error


@pytest.mark.parametrize("stream", [False, True])
async def test_one_prompt_of_a_batch_that_fails_fails_the_batch(stream: bool) -> None:
    async with client_of(app_of(BreakingEngine(broken(), 0))) as client:
        response = await client.post("/v1/completions", json={"prompt": ["hi", "ho"], "stream": stream})
    assert_error(response, 500, None, None)


async def test_a_failure_within_a_stream_is_its_last_event() -> None:
    with capture_logs() as logs:
        async with client_of(app_of(BreakingEngine(broken(), 3))) as client:
            body = {"prompt": "hi", "temperature": 0, "stream": True}
            response = await client.post("/v1/completions", json=body)
    *chunks, last = [json.loads(event) for event in events_of(response.text)]
    assert response.status_code == 200
    assert [chunk["choices"][0]["text"] for chunk in chunks] == ["h", "i"]
    assert list(last) == ["error"]
    assert list(last["error"]) == ["message", "type", "param", "code"]
    assert last["error"]["type"] == "server_error"
    assert "secret" not in response.text
    assert [line["event"] for line in logs] == ["request failed", "request"]


@pytest.mark.parametrize(
    ("kwargs", "status"),
    [
        pytest.param({"content": b"{"}, 400, id="JSON"),
        pytest.param({"content": b"[" * 100_000}, 400, id="nesting"),
        pytest.param({"content": b"x" * 1001}, 413, id="size"),
        pytest.param({"content": b"{}", "headers": {"content-encoding": "br"}}, 415, id="encoding"),
    ],
)
async def test_bodies_that_are_none(kwargs: dict[str, Any], status: int) -> None:
    max_body_bytes = 1000 if status == 413 else 1_000_000
    async with client_of(app_of(max_body_bytes=max_body_bytes)) as client:
        for path in ("/v1/completions", "/tokenize"):
            assert_error(await client.post(path, **kwargs), status, None, None)


async def test_an_integer_beyond_64_bit_is_not_taken_for_a_float() -> None:
    async with client_of(app_of()) as client:
        response = await client.post("/v1/completions", content=b'{"seed": 18446744073709551616}')
        largest = await client.post("/v1/completions", content=b'{"seed": 9223372036854775807}')
    assert_error(response, 400, "seed", "integer_above_max_value")
    assert largest.status_code == 200


@pytest.mark.parametrize(
    ("error", "status", "code", "message"),
    [
        pytest.param(UpstreamFailed(SECRET), 502, "upstream_failed", "that runs this model failed", id="failed"),
        pytest.param(UpstreamTimedOut(SECRET), 504, "upstream_timed_out", "took too long", id="timed out"),
    ],
)
async def test_what_another_server_did_is_told_in_the_log_only(
    error: Exception, status: int, code: str, message: str
) -> None:
    with capture_logs() as lines:
        async with client_of(app_of(BreakingEngine(error, after=0)), **{"x-request-id": "mine-1"}) as client:
            response = await client.post("/v1/completions", json={"prompt": "a", "stream": True})
    assert message in assert_error(response, status, None, code)["message"]
    assert SECRET not in response.text
    (line,) = [line for line in lines if line["event"] == "upstream failed"]
    assert (line["detail"], line["request_id"], line["log_level"]) == (SECRET, "mine-1", "error")


LONG = "n" * 20_000


@pytest.mark.parametrize(
    ("method", "path", "body", "headers"),
    [
        pytest.param("POST", "/v1/completions", {"model": LONG}, {}, id="model"),
        pytest.param("GET", f"/v1/models/{LONG}", None, {}, id="model in the path"),
        pytest.param("POST", f"/v1/engines/{LONG}/completions", {}, {}, id="engine"),
        pytest.param("GET", f"/v5/models/{LONG}", None, {}, id="full name"),
        pytest.param("GET", f"/v5/models?starting_after={LONG}", None, {}, id="cursor"),
        pytest.param("GET", f"/v5/models?limit={LONG}", None, {}, id="limit"),
        pytest.param("GET", f"/v1/{LONG}", None, {}, id="route"),
        pytest.param("POST", "/v1/completions", {LONG: 1}, {}, id="field"),
        pytest.param("POST", "/v1/completions", {"logit_bias": {LONG: 1}}, {}, id="key of a bias"),
        pytest.param("POST", "/v1/completions", {}, {"content-encoding": LONG}, id="encoding"),
    ],
)
async def test_http_29_what_a_client_made_up_is_repeated_shortly(
    method: str, path: str, body: dict[str, Any] | None, headers: dict[str, str]
) -> None:
    async with client_of(app_of(strict=True)) as client:
        response = await client.request(method, path, json=body, headers=headers)
    assert 400 <= response.status_code < 500
    assert len(response.content) < 1000


async def test_http_27_more_prompts_than_ever_fit_are_a_400_that_names_the_limit() -> None:
    async with client_of(app_of(EchoEngine(n_slots=16, max_waiting=512))) as client:
        body = {"prompt": ["short"] * 600, "max_tokens": 1}
        for stream in (False, True):
            response = await client.post("/v1/completions", json=body | {"stream": stream})
            error = assert_error(response, 400, "prompt", "array_above_max_length")
            assert "at most 528 at once" in error["message"]
            assert "retry-after" not in response.headers


async def test_http_27_as_many_as_fit_are_served_in_turn() -> None:
    async with client_of(app_of(EchoEngine(n_slots=16, max_waiting=MAX_CANDIDATES))) as client:
        body = {"prompt": ["a"] * 600, "max_tokens": 1, "temperature": 0}
        choices = (await client.post("/v1/completions", json=body)).json()["choices"]
    assert [choice["text"] for choice in choices] == ["a"] * 600
