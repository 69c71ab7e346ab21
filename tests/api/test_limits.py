"""A key's limits over HTTP: statuses, bodies, headers, and what counts."""

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
from tests.api.gateways import ListedRows, gateway_of
from tests.api.served import BreakingEngine, app_of, client_of, full_engine, is_idle, wait_until
from tests.gateway.clock import Clock
from tests.live import run_server

from afterword.engine.base import Engine
from afterword.engine.echo import EchoEngine
from afterword.errors import EngineFailed
from afterword.gateway.grant import Grant, KeyLimits
from afterword.gateway.limiter import memory_limiter

GRANTS = {
    "requests": Grant("k1", "acme", limits=KeyLimits(requests_per_minute=2)),
    "tokens": Grant("k2", "acme", limits=KeyLimits(tokens_per_minute=100)),
    "places": Grant("k3", "acme", limits=KeyLimits(concurrent_requests=1)),
    "both": Grant("k4", "acme", frozenset({"local/echo"}), KeyLimits(requests_per_minute=2, tokens_per_minute=100)),
    "free": Grant("k5", "acme"),
}
ASK = {"prompt": "hello ", "max_tokens": 4, "temperature": 0}


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr("time.time", made)
    return made


@asynccontextmanager
async def client_with(key: str, *engines: Engine, **settings: Any) -> AsyncIterator[httpx.AsyncClient]:
    # Looked up at each call, so that `clock` takes its place.
    limiter = memory_limiter(lambda: time.time())
    gateway = gateway_of(GRANTS, ledger=ListedRows(), limiter=limiter)
    async with client_of(app_of(*engines, gateway=gateway, **settings), authorization=f"Bearer {key}") as client:
        yield client


def limits_of(response: httpx.Response) -> dict[str, str]:
    prefix = "x-ratelimit-"
    return {name.removeprefix(prefix): value for name, value in response.headers.items() if name.startswith(prefix)}


def error_of(response: httpx.Response) -> dict[str, Any]:
    assert response.headers["content-type"] == "application/json"
    error: dict[str, Any] = response.json()["error"]
    return error


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
async def test_over_its_requests_a_minute(clock: Clock, stream: bool) -> None:
    body = ASK | {"stream": stream}
    async with client_with("requests") as client:
        first = await client.post("/v1/completions", json=body)
        assert (first.status_code, limits_of(first)) == (
            200,
            {"limit-requests": "2", "remaining-requests": "1", "reset-requests": "1m0s"},
        )
        clock.advance(20)
        assert limits_of(await client.post("/v1/completions", json=body))["remaining-requests"] == "0"
        clock.advance(0.25)
        refused = await client.post("/v1/completions", json=body)
        assert refused.status_code == 429
        assert error_of(refused) == {
            "message": "This API key may send 2 requests a minute, and has sent 2. Please try again in 40s.",
            "type": "requests",
            "param": None,
            "code": "rate_limit_exceeded",
        }
        assert refused.headers["retry-after"] == "40"
        assert limits_of(refused) == {"limit-requests": "2", "remaining-requests": "0", "reset-requests": "59.75s"}
        clock.advance(40)
        assert (await client.post("/v1/completions", json=body)).status_code == 200


async def test_over_its_tokens_a_minute(clock: Clock) -> None:
    async with client_with("tokens") as client:
        first = await client.post("/v1/completions", json=ASK | {"max_tokens": 84})
        assert limits_of(first) == {"limit-tokens": "100", "remaining-tokens": "10", "reset-tokens": "1m0s"}
        clock.advance(1)
        refused = await client.post("/v1/completions", json=ASK | {"max_tokens": 5})
        assert refused.status_code == 429
        assert error_of(refused) == {
            "message": "This API key may use 100 tokens a minute: 90 are used, 0 are reserved for running requests, "
            "and this request may need 11. Please try again in 60s.",
            "type": "tokens",
            "param": None,
            "code": "rate_limit_exceeded",
        }
        assert refused.headers["retry-after"] == "60"
        assert limits_of(refused) == {"limit-tokens": "100", "remaining-tokens": "10", "reset-tokens": "1m0s"}
        assert (await client.post("/v1/completions", json=ASK)).status_code == 200


async def test_a_request_that_can_never_fit_is_not_worth_repeating() -> None:
    async with client_with("tokens") as client:
        response = await client.post("/v1/completions", json=ASK | {"max_tokens": 24, "best_of": 4, "n": 1})
    assert response.status_code == 429
    assert error_of(response) == {
        "message": "This request may need 102 tokens (each prompt, and max_tokens for each candidate), and this API "
        "key may use 100 a minute: waiting does not help. Shorten the prompt or lower max_tokens.",
        "type": "tokens",
        "param": None,
        "code": "rate_limit_exceeded",
    }
    assert "retry-after" not in response.headers
    assert response.headers["x-should-retry"] == "false"
    assert limits_of(response) == {"limit-tokens": "100", "remaining-tokens": "100", "reset-tokens": "0s"}


def test_over_its_requests_at_once() -> None:
    engine = EchoEngine(token_delay=0.02)
    gateway = gateway_of(GRANTS, ledger=ListedRows(), limiter=memory_limiter())
    with run_server(app_of(engine, gateway=gateway)) as url, httpx.Client(headers={"api-key": "places"}) as client:
        ask = f"{url}/v1/completions"
        with client.stream("POST", ask, json=ASK | {"stream": True, "max_tokens": 8000}) as response:
            # Kept, because an iterator that is let go of closes the stream.
            pieces = response.iter_bytes()
            next(pieces)
            refused = client.post(ask, json=ASK)
        assert refused.status_code == 429
        assert error_of(refused) == {
            "message": "This API key may have 1 requests running at once, and 1 are. Please try again when one has "
            "ended.",
            "type": "requests",
            "param": None,
            "code": "rate_limit_exceeded",
        }
        assert refused.headers["retry-after"] == "1"
        wait_until(url, lambda: is_idle(engine))
        assert client.post(ask, json=ASK).status_code == 200


async def test_what_a_request_did_not_use_is_given_back(clock: Clock) -> None:
    """The echo engine ends at its stop long before max_tokens."""
    async with client_with("tokens") as client:
        for _ in range(3):
            response = await client.post("/v1/completions", json=ASK | {"max_tokens": 60, "stop": "el"})
            assert (response.status_code, response.json()["usage"]["total_tokens"]) == (200, 9)
        assert limits_of(await client.get("/v1/models")) == {
            "limit-tokens": "100",
            "remaining-tokens": "73",
            "reset-tokens": "1m1s",
        }


async def test_a_request_that_no_engine_takes_on_counts_as_a_request_without_tokens(clock: Clock) -> None:
    async with client_with("both", full_engine()) as client:
        response = await client.post("/v1/completions", json=ASK | {"n": 2})
        assert response.status_code == 503
        left = limits_of(await client.get("/v1/models"))
    assert (left["remaining-requests"], left["remaining-tokens"]) == ("1", "100")


async def test_a_request_that_fails_counts_with_the_tokens_it_used(clock: Clock) -> None:
    async with client_with("both", BreakingEngine(EngineFailed("It broke."), after=2)) as client:
        assert (await client.post("/v1/completions", json=ASK)).status_code == 500
        left = limits_of(await client.get("/v1/models"))
    assert (left["remaining-requests"], left["remaining-tokens"]) == ("1", "93")


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        pytest.param("POST", "/v1/completions", {"n": 0}, 400, id="a body that breaks a rule"),
        pytest.param("POST", "/v1/completions", {"prompt": "x", "max_tokens": 10**6}, 400, id="more than the context"),
        pytest.param("POST", "/v1/completions", {"model": "gone"}, 404, id="no such model"),
        pytest.param("POST", "/v1/completions", {"model": "vendor/second"}, 403, id="no permission"),
        pytest.param("POST", "/v1/completions", {"prompt": "x", "max_tokens": 100}, 429, id="over a limit"),
        pytest.param("GET", "/v1/models", None, 200, id="models"),
        pytest.param("POST", "/tokenize", {"prompt": "x"}, 200, id="tokenize"),
        pytest.param("GET", "/nowhere", None, 404, id="no such route"),
    ],
)
async def test_what_is_refused_or_is_no_completion_counts_nothing_and_says_what_is_left(
    method: str, path: str, body: Any, status: int
) -> None:
    async with client_with("both", EchoEngine(), EchoEngine()) as client:
        response = await client.request(method, path, json=body)
        assert response.status_code == status
        left = limits_of(response)
    assert left == {
        "limit-requests": "2",
        "remaining-requests": "2",
        "reset-requests": "0s",
        "limit-tokens": "100",
        "remaining-tokens": "100",
        "reset-tokens": "0s",
    }


async def test_permission_is_asked_for_before_limits_and_limits_before_capacity(clock: Clock) -> None:
    async with client_with("both", EchoEngine(n_slots=1, max_waiting=0), EchoEngine()) as client:
        statuses = []
        for body in (ASK, ASK, ASK | {"n": 2}, ASK | {"model": "vendor/second"}, ASK | {"model": "gone"}, {"n": 0}):
            statuses.append((await client.post("/v1/completions", json=body)).status_code)
        statuses.append((await client.post("/v1/completions", json={}, headers={"authorization": "no"})).status_code)
    assert statuses == [200, 200, 429, 403, 404, 400, 401]


@pytest.mark.parametrize("key", ["free", "wrong"])
async def test_without_limits_or_a_good_key_there_are_no_such_headers(key: str) -> None:
    async with client_with(key) as client:
        assert limits_of(await client.post("/v1/completions", json=ASK)) == {}


async def test_pages_may_read_the_headers() -> None:
    async with client_with("both", cors_origins=("*",)) as client:
        response = await client.get("/v1/models", headers={"origin": "https://page.example"})
    exposed = response.headers["access-control-expose-headers"].split(", ")
    assert {f"x-ratelimit-{name}" for name in limits_of(response)} <= set(exposed)


async def test_limits_that_could_not_be_shared_are_counted() -> None:
    async with client_with("free") as client:
        text = (await client.get("/metrics")).text
    assert "afterword_limits_alone_total 0.0" in text.splitlines()
