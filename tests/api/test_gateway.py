"""What the HTTP layer asks of a gateway and tells it: grants, permission for models, rows in the ledger."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest
from structlog.testing import capture_logs
from tests.api.gateways import ListedRows, NamedKeys, gateway_of
from tests.api.served import BreakingEngine, app_of, assert_error, client_of, full_engine, is_idle, wait_until
from tests.cluster.in_process import LocalReplicas, cluster_engine
from tests.live import run_server

from afterword.engine.base import Engine
from afterword.engine.echo import EchoEngine
from afterword.errors import EngineFailed
from afterword.gateway.grant import Grant, KeyLimits
from afterword.gateway.interfaces import Gateway, UsageRow
from afterword.gateway.limiter import memory_limiter
from afterword.gateway.unlimited import Unlimited

GRANTS = {
    "all": Grant("k1", "acme"),
    "first": Grant("k2", "acme", frozenset({"local/echo"})),
    "second": Grant("k3", None, frozenset({"local/vendor/second"})),
}
ASK = {"prompt": "hello ", "max_tokens": 3, "temperature": 0}


@pytest.fixture
def ledger() -> ListedRows:
    return ListedRows()


def client_with(key: str, ledger: ListedRows, *engines: Engine, **headers: str) -> httpx.AsyncClient:
    engines = engines or (EchoEngine(), EchoEngine())
    app = app_of(*engines, gateway=gateway_of(GRANTS, ledger=ledger))
    return client_of(app, authorization=f"Bearer {key}", **headers)


async def test_a_wrong_key_opens_nothing(ledger: ListedRows) -> None:
    async with client_with("other", ledger) as client:
        assert_error(await client.post("/v1/completions", json=ASK), 401, None, "invalid_api_key")
    assert ledger.rows == []


@pytest.mark.parametrize(("account", "status"), [("acme", 200), (" acme ", 200), ("", 200), ("rival", 403)])
async def test_the_account_a_client_names_reaches_the_keys(ledger: ListedRows, account: str, status: int) -> None:
    async with client_with("all", ledger, **{"x-selected-account-id": account}) as client:
        response = await client.post("/v1/completions", json=ASK)
    assert response.status_code == status
    if status == 403:
        error = assert_error(response, 403, None, "permission_denied")
        assert error["message"] == "This API key may not charge the account 'rival'."


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        pytest.param("POST", "/v1/completions", {"model": "vendor/second"}, id="completion"),
        pytest.param("POST", "/v1/completions", {"model": "vendor/second", "stream": True}, id="stream"),
        pytest.param("POST", "/v1/engines/vendor/second/completions", {}, id="engine in the path"),
        pytest.param("POST", "/v5/completions", {"model": "local/vendor/second"}, id="Scale GP dialect"),
        pytest.param("POST", "/openai/deployments/vendor/second/completions", {}, id="deployment in the path"),
        pytest.param("POST", "/tokenize", {"model": "vendor/second", "prompt": "x"}, id="tokenize"),
        pytest.param("POST", "/detokenize", {"model": "vendor/second", "tokens": [1]}, id="detokenize"),
        pytest.param("GET", "/tokenizer_info?model=vendor/second", None, id="tokenizer"),
        pytest.param("GET", "/v1/models/vendor/second", None, id="card"),
        pytest.param("GET", "/v1/models/local/vendor/second", None, id="card by full name"),
        pytest.param("GET", "/v5/models/local/vendor/second", None, id="card in the Scale GP dialect"),
    ],
)
async def test_a_model_that_the_key_may_not_use_is_named(ledger: ListedRows, method: str, path: str, body: Any) -> None:
    async with client_with("first", ledger) as client:
        response = await client.request(method, path, json=body)
    error = assert_error(response, 403, None, "permission_denied")
    assert error["message"] == "This API key may not use the model 'local/vendor/second'."
    assert ledger.rows == []


async def test_a_model_that_does_not_exist_is_not_found_whatever_the_key(ledger: ListedRows) -> None:
    async with client_with("first", ledger) as client:
        response = await client.post("/v1/completions", json={"model": "gone"})
    assert_error(response, 404, "model", "model_not_found")


async def test_a_body_that_breaks_a_rule_is_refused_before_the_model_is_looked_for(ledger: ListedRows) -> None:
    async with client_with("first", ledger) as client:
        response = await client.post("/v1/completions", json={"model": "vendor/second", "n": 0})
    assert response.status_code == 400


async def test_the_default_model_needs_permission_too(ledger: ListedRows) -> None:
    async with client_with("second", ledger) as client:
        response = await client.post("/v1/completions", json=ASK)
    assert_error(response, 403, None, "permission_denied")


@pytest.mark.parametrize(
    ("key", "names"), [("all", ["echo", "vendor/second"]), ("first", ["echo"]), ("second", ["vendor/second"])]
)
async def test_models_are_listed_as_far_as_the_key_may_use_them(ledger: ListedRows, key: str, names: list[str]) -> None:
    async with client_with(key, ledger) as client:
        listed = (await client.get("/v1/models")).json()["data"]
        paged = (await client.get("/v5/models")).json()["items"]
    assert [card["id"] for card in listed] == names
    assert [model["name"] for model in paged] == names


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
async def test_a_finished_request_is_one_row_of_the_ledger(ledger: ListedRows, stream: bool) -> None:
    before = datetime.now(UTC)
    async with client_with("all", ledger, **{"x-request-id": "mine"}) as client:
        response = await client.post("/v1/completions", json=ASK | {"n": 2, "user": "u1", "stream": stream})
        assert response.status_code == 200
    [row] = ledger.rows
    assert before <= row.time <= datetime.now(UTC)
    assert row == UsageRow(
        time=row.time,
        request_id="mine",
        key_id="k1",
        account_id="acme",
        user="u1",
        model="local/echo",
        prompt_tokens=6,
        cached_tokens=0,
        completion_tokens=6,
        estimated=False,
        finish_reasons=("length", "length"),
        latency=row.latency,
        status=200,
    )
    assert 0 < row.latency < 60


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
async def test_a_request_that_fails_is_counted_with_what_it_used(ledger: ListedRows, stream: bool) -> None:
    engine = BreakingEngine(EngineFailed("It broke."), after=2)
    async with client_with("all", ledger, engine) as client:
        await client.post("/v1/completions", json=ASK | {"stream": stream})
    [row] = ledger.rows
    assert (row.status, row.prompt_tokens, row.completion_tokens) == (500, 6, 1)
    assert row.finish_reasons == ()


async def test_a_request_that_the_engine_does_not_take_on_has_used_nothing(ledger: ListedRows) -> None:
    async with client_with("all", ledger, full_engine()) as client:
        response = await client.post("/v1/completions", json=ASK | {"n": 2})
    assert_error(response, 503, None, "overloaded")
    [row] = ledger.rows
    assert (row.status, row.prompt_tokens, row.completion_tokens) == (503, 0, 0)


@pytest.mark.parametrize("body", [{"n": 0}, {"prompt": "x", "max_tokens": 10**6}], ids=["rule", "context"])
async def test_a_request_that_is_not_understood_leaves_no_row(ledger: ListedRows, body: dict[str, Any]) -> None:
    async with client_with("all", ledger) as client:
        assert (await client.post("/v1/completions", json=body)).status_code == 400
        await client.get("/v1/models")
    assert ledger.rows == []


def test_a_stream_that_its_client_leaves_is_counted_with_what_was_generated(ledger: ListedRows) -> None:
    engine = EchoEngine(token_delay=0.02)
    with run_server(app_of(engine, gateway=gateway_of(GRANTS, ledger=ledger))) as url:
        body = ASK | {"stream": True, "max_tokens": 8000}
        with httpx.stream("POST", f"{url}/v1/completions", json=body, headers={"api-key": "all"}) as response:
            next(response.iter_bytes())
        wait_until(url, lambda: is_idle(engine) and len(ledger.rows) == 1)
    [row] = ledger.rows
    assert (row.status, row.prompt_tokens, row.finish_reasons) == (499, 6, ())
    assert row.completion_tokens == engine.stats().completion_tokens > 0


def test_what_was_generated_for_a_client_that_did_not_read_counts_too(ledger: ListedRows) -> None:
    """Each choice begins with an echo of 250,000 characters: the connection is full before any token is shown."""
    engine = EchoEngine(n_slots=100, context=300_000)
    with run_server(app_of(engine, gateway=gateway_of(GRANTS, ledger=ledger))) as url:
        body = {"prompt": ["x" * 250_000] * 2, "stream": True, "max_tokens": 5, "n": 50, "echo": True, "temperature": 0}
        with httpx.stream("POST", f"{url}/v1/completions", json=body, headers={"api-key": "all"}):
            wait_until(url, lambda: engine.stats().completion_tokens == 500 and is_idle(engine))
            assert ledger.rows == []
        wait_until(url, lambda: len(ledger.rows) == 1)
    [row] = ledger.rows
    assert (row.prompt_tokens, row.completion_tokens) == (500_000, 500)


def test_gate_14_a_cluster_counts_what_a_client_that_has_left_did_not_read(ledger: ListedRows) -> None:
    """As above: all of it has come from the replica, and none of it can be sent."""
    replica = EchoEngine(n_slots=100, context=300_000)
    app = app_of(cluster_engine(LocalReplicas([replica])), gateway=gateway_of(GRANTS, ledger=ledger))
    with run_server(app) as url:
        body = {"prompt": ["x" * 250_000] * 2, "stream": True, "max_tokens": 5, "n": 50, "echo": True, "temperature": 0}
        with httpx.stream("POST", f"{url}/v1/completions", json=body, headers={"api-key": "all"}):
            wait_until(url, lambda: replica.stats().completion_tokens == 500 and is_idle(replica))
            # Turns of the event loop, in which the replica's last messages arrive.
            httpx.get(f"{url}/health")
            assert ledger.rows == []
        wait_until(url, lambda: len(ledger.rows) == 1)
    [row] = ledger.rows
    assert (row.status, row.prompt_tokens, row.completion_tokens) == (499, 500_000, 500)


async def test_the_line_of_a_request_says_whose_key_it_was(ledger: ListedRows) -> None:
    with capture_logs() as logs:
        async with client_with("all", ledger) as client:
            await client.get("/v1/models")
    [line] = logs
    assert (line["key"], line["account"]) == ("k1", "acme")


async def test_the_ledger_is_closed_last_and_gets_the_requests_that_a_stop_ends() -> None:
    engine, keys, ledger = EchoEngine(token_delay=0.02), NamedKeys(GRANTS), LastLedger()
    app = app_of(engine, gateway=Gateway(keys, Unlimited(), ledger))
    ledger.closed_before = lambda: (engine.stats().state, keys.closed)
    async with client_of(app, authorization="Bearer all") as client:
        async with app.router.lifespan_context(app):
            asking = asyncio.create_task(client.post("/v1/completions", json=ASK | {"max_tokens": 8000}))
            while engine.stats().completion_tokens == 0:
                await asyncio.sleep(0)
        response = await asking
    assert_error(response, 503, None, "stopping")
    assert [row.status for row in ledger.rows] == [503]
    assert ledger.found == ("closed", True)


class LastLedger(ListedRows):
    """Looks at what has been closed when its turn comes."""

    def __init__(self) -> None:
        super().__init__()
        self.closed_before: Callable[[], object] = lambda: None
        self.found: object = None

    async def aclose(self) -> None:
        self.found = self.closed_before()
        await super().aclose()


async def test_gate_01_what_a_request_holds_is_given_back_even_if_its_row_cannot_be_written() -> None:
    ledger, limiter = BrokenLedger(), memory_limiter()
    grant = Grant("k1", "acme", None, KeyLimits(concurrent_requests=1))
    app = app_of(gateway=gateway_of({"one": grant}, ledger=ledger, limiter=limiter))
    async with client_of(app, authorization="Bearer one") as client:
        for _ in range(3):
            with pytest.raises(RuntimeError, match="no row"):
                await client.post("/v1/completions", json=ASK)


class BrokenLedger(ListedRows):
    """Cannot take a row."""

    def write(self, row: UsageRow) -> None:
        raise RuntimeError("no row")
