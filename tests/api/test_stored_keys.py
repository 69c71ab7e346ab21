"""Keys of a database over HTTP: what bad ones are told, and what limits and ledger make of a good one."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest
from tests.api.served import app_of, client_of

from afterword.engine.echo import EchoEngine
from afterword.gateway.database import Database, open_database
from afterword.gateway.grant import KeyLimits
from afterword.gateway.interfaces import Gateway
from afterword.gateway.key_store import KeyTerms, create_key, revoke_key, rotate_key
from afterword.gateway.opening import open_limiter
from afterword.gateway.storage import open_storage
from afterword.gateway.usage import sum_usage

NOW = datetime.now(UTC)
ASK = {"prompt": "hello ", "max_tokens": 3, "temperature": 0}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "afterword.db"


def made(file: Path, make: Callable[[Database], str]) -> str:
    with closing(open_database(file)) as database:
        return make(database)


@asynccontextmanager
async def client_with(file: Path, key: str) -> AsyncIterator[httpx.AsyncClient]:
    keys, ledger = open_storage(file, None, open_until_first_key=False)
    app = app_of(EchoEngine(), EchoEngine(), gateway=Gateway(keys, open_limiter(None), ledger))
    async with app.router.lifespan_context(app), client_of(app, authorization=f"Bearer {key}") as client:
        yield client


def good(database: Database) -> str:
    return create_key(database, KeyTerms("good"), NOW)


def wrong_secret(database: Database) -> str:
    text = good(database)
    return text[:-1] + ("a" if text[-1] != "a" else "b")


def wrong_id(database: Database) -> str:
    text, other = good(database), create_key(database, KeyTerms("other"), NOW)
    middle = len(text) // 2
    return text[:middle] + other[middle:]


def expired(database: Database) -> str:
    return create_key(database, KeyTerms("old", expires=NOW - timedelta(seconds=1)), NOW)


def revoked(database: Database) -> str:
    text = good(database)
    revoke_key(database, "good", NOW)
    return text


def rotated(database: Database) -> str:
    text = good(database)
    rotate_key(database, "good", NOW, None)
    return text


@pytest.mark.parametrize(
    "make", [wrong_secret, wrong_id, expired, revoked, rotated, lambda _: "sk-123"], ids=lambda make: make.__name__
)
async def test_a_key_that_is_not_good_is_told_no_more_than_that(file: Path, make: Callable[[Database], str]) -> None:
    async with client_with(file, made(file, make)) as client:
        response = await client.post("/v1/completions", json=ASK)
    assert response.status_code == 401
    assert response.json() == {
        "error": {
            "message": "The API key sent with this request is not the one this server expects.",
            "type": "invalid_request_error",
            "param": None,
            "code": "invalid_api_key",
        }
    }
    assert response.headers["www-authenticate"] == "Bearer"
    assert not any(name.startswith("x-ratelimit") for name in response.headers)


async def test_a_key_that_is_revoked_meanwhile_is_refused_within_moments(file: Path) -> None:
    async with client_with(file, made(file, good)) as client:
        assert (await client.post("/v1/completions", json=ASK)).status_code == 200
        made(file, revoked_now)
        # What is remembered of a key is a second old at most; the suite's timeout ends a wait in vain.
        while (await client.post("/v1/completions", json=ASK)).status_code == 200:
            pass


def revoked_now(database: Database) -> str:
    return revoke_key(database, "good", NOW).id


async def test_models_and_limits_of_a_stored_key_hold(file: Path) -> None:
    terms = KeyTerms("few", models=["local/echo"], limits=KeyLimits(requests_per_minute=1, tokens_per_minute=1000))
    async with client_with(file, made(file, lambda database: create_key(database, terms, NOW))) as client:
        forbidden = await client.post("/v1/completions", json=ASK | {"model": "vendor/second"})
        assert (forbidden.status_code, forbidden.json()["error"]["message"]) == (
            403,
            "This API key may not use the model 'local/vendor/second'.",
        )
        answered = await client.post("/v1/completions", json=ASK)
        assert answered.status_code == 200
        assert answered.headers["x-ratelimit-remaining-requests"] == "0"
        assert answered.headers["x-ratelimit-remaining-tokens"] == "991"
        refused = await client.post("/v1/completions", json=ASK)
        assert (refused.status_code, refused.json()["error"]["type"]) == (429, "requests")
        assert 1 <= int(refused.headers["retry-after"]) <= 60
    with closing(open_database(file)) as database:
        [usage] = sum_usage(database, [], None, None)
    # The answer and the refusal; the forbidden model was refused before the request was understood.
    assert (usage.requests, usage.failed, usage.prompt_tokens, usage.completion_tokens) == (2, 1, 6, 3)
