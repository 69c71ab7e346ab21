"""What surrounds the routes: keys, headers, CORS, logs, counts, the end of the engines."""

import base64
import re
from typing import Any

import httpx
import pytest
from structlog.testing import capture_logs
from tests.api.served import BreakingEngine, app_of, assert_error, client_of

from afterword.engine.echo import EchoEngine
from afterword.errors import EngineFailed

KEY = "schlüssel-1"
BASIC = base64.b64encode(f"me:{KEY}".encode()).decode()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("authorization", f"Bearer {KEY}"),
        ("authorization", f"bearer {KEY}"),
        ("authorization", f"Basic {BASIC}"),
        ("api-key", KEY),
        ("x-api-key", KEY),
    ],
)
async def test_the_key_opens_in_each_of_its_places(name: str, value: str) -> None:
    async with client_of(app_of(api_key=KEY)) as client:
        response = await client.get("/v1/models", headers=[(name.encode(), value.encode())])
    assert response.status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        pytest.param({}, id="none"),
        pytest.param({"authorization": "Bearer "}, id="empty"),
        pytest.param({"authorization": "Bearer wrong"}, id="wrong"),
        pytest.param({"authorization": "Bearer schl\u00fcssel-1".encode("latin-1")}, id="other bytes"),
        pytest.param({"authorization": b"Bearer \xff\xfe"}, id="no text"),
    ],
)
@pytest.mark.parametrize("path", ["/v1/completions", "/v1/models", "/metrics", "/tokenizer_info", "/nothing", "/docs"])
async def test_without_the_key_nothing_opens(path: str, headers: dict[str, Any]) -> None:
    async with client_of(app_of(api_key=KEY)) as client:
        response = await client.get(path, headers=httpx.Headers(headers))
    assert_error(response, 401, None, "invalid_api_key")
    assert response.headers["www-authenticate"] == "Bearer"
    assert response.headers["x-request-id"]


@pytest.mark.parametrize("path", ["/health", "/ready", "/health/"])
async def test_probes_need_no_key(path: str) -> None:
    async with client_of(app_of(api_key=KEY)) as client:
        assert (await client.get(path)).status_code == 200


async def test_an_open_server_takes_an_empty_bearer() -> None:
    async with client_of(app_of(), Authorization="Bearer ") as client:
        assert (await client.get("/v1/models")).status_code == 200


async def test_preflights_are_answered_before_the_key_is_asked_for() -> None:
    headers = {
        "origin": "https://page.example",
        "access-control-request-method": "POST",
        "access-control-request-headers": "authorization, content-type",
        "access-control-request-private-network": "true",
    }
    async with client_of(app_of(api_key=KEY, cors_origins=("https://page.example",))) as client:
        response = await client.options("/v1/completions", headers=headers)
    assert response.status_code == 200
    assert response.headers["access-control-allow-origin"] == "https://page.example"
    assert "POST" in response.headers["access-control-allow-methods"]
    assert response.headers["access-control-allow-headers"] == "authorization, content-type"
    assert response.headers["access-control-allow-private-network"] == "true"


async def test_errors_carry_cors_headers_too() -> None:
    async with client_of(app_of(api_key=KEY, cors_origins=("*",)), Origin="https://page.example") as client:
        response = await client.get("/v1/models")
    assert response.status_code == 401
    assert response.headers["access-control-allow-origin"] == "*"
    assert "x-request-id" in response.headers["access-control-expose-headers"]


async def test_without_origins_there_is_no_cors() -> None:
    async with client_of(app_of(api_key=KEY), Origin="https://page.example") as client:
        response = await client.get("/v1/models", headers=[(b"api-key", KEY.encode())])
    assert response.status_code == 200
    assert "access-control-allow-origin" not in response.headers


@pytest.mark.parametrize("path", ["/v1/models", "/nothing", "/health", "/v1/completions"])
async def test_headers_on_every_answer(path: str) -> None:
    async with client_of(app_of()) as client:
        response = await client.get(path)
    assert re.fullmatch("req_[0-9a-f]{32}", response.headers["x-request-id"])
    assert response.headers["openai-version"] == "2020-10-01"
    assert response.headers["openai-processing-ms"].isdigit()
    assert "openai-model" not in response.headers


@pytest.mark.parametrize(
    ("sent", "kept"),
    [
        ("mine_1.2:3-4", True),
        ("x" * 128, True),
        ("x" * 129, False),
        ("a b", False),
        ("", False),
        ('"injected"', False),
    ],
)
async def test_a_sane_request_id_is_kept(sent: str, kept: bool) -> None:
    async with client_of(app_of(), **{"x-request-id": sent}) as client:
        response = await client.get("/health")
    assert (response.headers["x-request-id"] == sent) is kept


async def test_one_line_a_completion_says_what_it_took() -> None:
    body = {"prompt": "hello", "max_tokens": 3, "n": 2, "user": "u1", "seed": 0, "temperature": 0}
    with capture_logs() as logs:
        async with client_of(app_of(), **{"x-request-id": "mine"}) as client:
            await client.post("/v1/completions/", json=body)
    [line] = logs
    assert line.pop("latency_ms") >= line.pop("ttft_ms") >= 0
    assert line == {
        "event": "request",
        "log_level": "info",
        "request_id": "mine",
        "method": "POST",
        "path": "/v1/completions/",
        "status": 200,
        "model": "echo",
        "stream": False,
        "prompt_tokens": 5,
        "cached_tokens": 0,
        "completion_tokens": 6,
        "seed": 0,
        "seed_drawn": False,
        "finish_reasons": ["length", "length"],
        "user": "u1",
    }


async def test_a_drawn_seed_is_logged_and_repeats_the_answer() -> None:
    async with client_of(app_of()) as client:
        with capture_logs() as logs:
            first = await client.post("/v1/completions", json={"prompt": "hello"})
        [line] = logs
        assert line["seed_drawn"] is True
        again = await client.post("/v1/completions", json={"prompt": "hello", "seed": line["seed"]})
    assert again.json()["choices"] == first.json()["choices"]


async def test_probes_leave_no_line() -> None:
    with capture_logs() as logs:
        async with client_of(app_of()) as client:
            for path in ("/health", "/ready", "/metrics"):
                await client.get(path)
            await client.get("/nothing")
    assert [line["path"] for line in logs] == ["/nothing"]


async def test_requests_are_counted_by_route_and_not_by_path() -> None:
    async with client_of(app_of()) as client:
        await client.post("/v1/completions", json={"prompt": "hi", "max_tokens": 3, "temperature": 0})
        await client.post("/v1/engines/gone/completions", json={})
        await client.get("/made/up")
        text = (await client.get("/metrics")).text
    lines = set(text.splitlines())
    assert {
        'afterword_requests_total{route="/v1/completions",status="200"} 1.0',
        'afterword_requests_total{route="/v1/engines/{model:path}/completions",status="404"} 1.0',
        'afterword_requests_total{route="unmatched",status="404"} 1.0',
        'afterword_request_seconds_count{route="/v1/completions"} 1.0',
        'afterword_time_to_first_token_seconds_count{model="echo"} 1.0',
        'afterword_engine_completion_tokens_total{model="echo"} 3.0',
        'afterword_engine_running{model="echo"} 0.0',
        'afterword_engine_state{model="echo",state="ready"} 1.0',
        'afterword_engine_state{model="echo",state="failed"} 0.0',
    } <= lines


async def test_two_applications_count_apart() -> None:
    for _ in range(2):
        async with client_of(app_of()) as client:
            await client.get("/made/up")
            text = (await client.get("/metrics")).text
        assert 'afterword_requests_total{route="unmatched",status="404"} 1.0' in text


@pytest.mark.parametrize(
    ("state", "health", "ready"), [("ready", 200, 200), ("loading", 200, 503), ("failed", 503, 503)]
)
async def test_health_is_about_life_and_ready_about_work(state: str, health: int, ready: int) -> None:
    engine = BreakingEngine(EngineFailed("It broke."), 0, state=state)
    async with client_of(app_of(EchoEngine(), engine)) as client:
        statuses = [(await client.get(path)).status_code for path in ("/health", "/ready")]
        head = await client.head("/health")
    assert statuses == [health, ready]
    assert head.status_code == health


async def test_the_engines_are_closed_with_the_application() -> None:
    engines = EchoEngine(), EchoEngine()
    app = app_of(*engines)
    async with app.router.lifespan_context(app):
        assert [engine.stats().state for engine in engines] == ["ready", "ready"]
    assert [engine.stats().state for engine in engines] == ["closed", "closed"]


@pytest.mark.parametrize("path", ["/v1/", "/v1"])
async def test_the_root_of_the_api_says_what_this_is(path: str) -> None:
    async with client_of(app_of()) as client:
        response = await client.get(path)
    assert response.json()["name"] == "afterword"
    assert response.json()["default_model"] == "echo"


def references(schema: object) -> set[str]:
    if isinstance(schema, dict):
        own = {schema["$ref"]} if isinstance(schema.get("$ref"), str) else set()
        return own.union(*(references(value) for value in schema.values()))
    return set().union(*(references(value) for value in schema)) if isinstance(schema, list) else set()


async def test_the_description_covers_request_and_response() -> None:
    async with client_of(app_of()) as client:
        described = (await client.get("/openapi.json")).json()
        assert (await client.get("/docs")).status_code == 200
    schemas = described["components"]["schemas"]
    assert {ref.removeprefix("#/components/schemas/") for ref in references(described)} <= set(schemas)
    operation = described["paths"]["/v1/completions"]["post"]
    body = operation["requestBody"]["content"]["application/json"]["schema"]
    assert body == {"$ref": "#/components/schemas/CompletionBody"}
    assert {"prompt", "best_of", "suffix", "stream_options"} <= set(schemas["CompletionBody"]["properties"])
    answer = operation["responses"]["200"]["content"]["application/json"]["schema"]
    assert answer == {"$ref": "#/components/schemas/Completion"}


async def test_the_description_names_what_answers_hold() -> None:
    asked = {"prompt": "hi", "logprobs": 1, "prompt_logprobs": 1, "return_token_ids": True}
    # Cut by a deadline after one token, so that the answer says that too.
    async with client_of(app_of(EchoEngine(token_delay=3600))) as client:
        schemas = (await client.get("/openapi.json")).json()["components"]["schemas"]
        body = (await client.post("/v1/completions", json=asked, headers={"x-request-timeout": "1"})).json()
    assert list(body) == list(schemas["Completion"]["properties"])
    assert list(body["choices"][0]) == list(schemas["Choice"]["properties"])
    assert list(body["choices"][0]["logprobs"]) == list(schemas["Logprobs"]["properties"])
    assert list(body["usage"]) == list(schemas["Usage"]["properties"])
