"""Requests for models that are loaded when they are asked for: they wait, to their deadline, and hold what they use."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
from tests.api.served import app_of, assert_error, client_of
from tests.fakes import eventually

from afterword.engine.base import Capabilities
from afterword.engine.echo import EchoEngine
from afterword.engine.loaded_models import LoadedModels
from afterword.engine.on_demand import ModelSource, OnDemandEngine
from afterword.errors import ConfigurationError

EXPECTED = Capabilities(context=0, max_logprobs=0, reproducible=False, prefix_cache=False, n_slots=1)
BODY: dict[str, Any] = {"prompt": "abc", "max_tokens": 3, "temperature": 0}
SECOND = BODY | {"model": "vendor/second"}


def pair(load: Callable[[int], EchoEngine] = lambda _: EchoEngine()) -> tuple[OnDemandEngine, OnDemandEngine]:
    """Two models with room for one of them."""
    models = LoadedModels()
    models.budget = 1
    first, second = (
        OnDemandEngine(ModelSource(name, lambda: 1, load, 1000, EXPECTED, 100), models) for name in ("echo", "second")
    )
    return first, second


@asynccontextmanager
async def asked(*engines: OnDemandEngine, **settings: Any) -> AsyncIterator[httpx.AsyncClient]:
    async with client_of(app_of(*engines, **settings)) as client:
        yield client
    for engine in engines:
        await engine.aclose()


async def states(client: httpx.AsyncClient) -> list[str]:
    return [model["state"] for model in (await client.get("/v1/models")).json()["data"]]


async def test_a_server_is_ready_before_anything_is_loaded_and_says_what_is() -> None:
    async with asked(*pair()) as client:
        assert await states(client) == ["unloaded", "unloaded"]
        assert (await client.get("/ready")).status_code == 200
        assert (await client.get("/health")).status_code == 200
        assert (await client.post("/v1/completions", json=BODY)).json()["choices"][0]["text"] == "abc"
        assert await states(client) == ["ready", "unloaded"]
        assert (await client.post("/v1/completions", json=SECOND)).status_code == 200
        assert await states(client) == ["unloaded", "ready"]
        cards = (await client.get("/v1/models")).json()["data"]
        assert [card["max_model_len"] for card in cards] == [EchoEngine().capabilities.context] * 2
        text = (await client.get("/metrics")).text
        assert 'afterword_engine_state{model="echo",state="unloaded"} 1.0' in text
        assert 'afterword_engine_completion_tokens_total{model="echo"} 3.0' in text
        scale = (await client.get("/v5/models")).json()["items"]
        assert {item["model_availability"] for item in scale} == {"available"}


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/completions", {"prompt": "a", "stream": True}),
        ("/v1/score", {"prompt": "a", "continuations": ["b"]}),
        ("/tokenize", {"prompt": "a"}),
        ("/detokenize", {"tokens": [97]}),
        ("/tokenizer_info", None),
    ],
)
async def test_every_route_that_needs_a_model_loads_it(path: str, body: dict[str, Any] | None) -> None:
    first, _ = engines = pair()
    async with asked(*engines) as client:
        answer = await (client.get(path) if body is None else client.post(path, json=body))
        assert answer.status_code == 200, answer.text
        assert first.is_loaded
        await eventually(lambda: first.is_idle)


async def test_a_request_waits_no_longer_than_it_may_and_others_go_on_waiting() -> None:
    go = threading.Event()

    def load(_n_bytes: int) -> EchoEngine:
        assert go.wait(60)
        return EchoEngine()

    first, _ = engines = pair(load)
    async with asked(*engines) as client:
        patient = asyncio.create_task(client.post("/v1/completions", json=BODY))
        await eventually(lambda: first.stats().waiting == 1)
        hasty = await client.post("/v1/completions", json=BODY, headers={"x-request-timeout": "0.05"})
        assert hasty.status_code == 504
        assert await states(client) == ["starting", "unloaded"]
        assert (await client.get("/ready")).status_code == 200
        go.set()
        assert (await patient).status_code == 200
        await eventually(lambda: first.is_idle)


async def test_switching_breaks_no_stream() -> None:
    first, second = engines = pair(lambda _: EchoEngine(token_delay=0.01))
    body = {"prompt": "a" * 30, "max_tokens": 30, "temperature": 0, "stream": True}
    async with asked(*engines) as client:
        streams = [asyncio.create_task(client.post("/v1/completions", json=body)) for _ in range(4)]
        await eventually(lambda: first.stats().running > 0)
        others = [asyncio.create_task(client.post("/v1/completions", json=SECOND)) for _ in range(3)]
        later = [asyncio.create_task(client.post("/v1/completions", json=BODY)) for _ in range(3)]
        for answer in await asyncio.gather(*streams):
            assert answer.text.count('"text":"a"') == 30
            assert answer.text.endswith("data: [DONE]\n\n")
        assert {answer.status_code for answer in await asyncio.gather(*others, *later)} == {200}
        await eventually(lambda: first.is_idle and second.is_idle)


async def test_what_is_not_there_or_wrong_is_loaded_for_nobody() -> None:
    first, _ = engines = pair()
    async with asked(*engines) as client:
        missing = await client.post("/v1/completions", json=BODY | {"model": "nothing"})
        assert_error(missing, 404, "model", "model_not_found")
        wrong = await client.post("/v1/completions", json=BODY | {"max_tokens": "many"})
        assert wrong.status_code == 400
        assert not first.is_loaded


async def test_a_model_that_cannot_be_loaded_is_said_in_a_sentence_and_others_are_served() -> None:
    def fail(_n_bytes: int) -> EchoEngine:
        raise ConfigurationError("The model file x.gguf is broken.")

    models = LoadedModels()
    models.budget = 1
    source = ModelSource("echo", lambda: 1, fail, 1000, EXPECTED, 100)
    works = ModelSource("second", lambda: 1, lambda _: EchoEngine(), 1000, EXPECTED, 100)
    async with asked(OnDemandEngine(source, models), OnDemandEngine(works, models)) as client:
        answer = await client.post("/v1/completions", json=BODY)
        error = assert_error(answer, 503, None, "engine_lost")
        assert error["message"] == "The model 'echo' cannot be served: The model file x.gguf is broken."
        assert answer.headers["retry-after"] == "10"
        assert (await client.post("/v1/completions", json=SECOND)).status_code == 200
        ready = await client.get("/ready")
        assert (ready.status_code, ready.json()["problems"]) == (200, {"echo": error["message"]})
