"""The models routes."""

from typing import Any

import pytest
from tests.api.served import CREATED, app_of, assert_error, client_of

from afterword.api.app import create_app
from afterword.config.tree import ServerConfig
from afterword.engine.echo import EchoEngine
from afterword.registry import Registry, ServedModel
from afterword.text.infill_template import parse_template


async def test_models_are_listed_in_their_order_with_the_documented_fields_first() -> None:
    async with client_of(app_of(EchoEngine(context=64), EchoEngine())) as client:
        body = (await client.get("/v1/models/")).json()
    assert list(body) == ["object", "data"]
    assert body["object"] == "list"
    assert [card["id"] for card in body["data"]] == ["echo", "vendor/second"]
    first = body["data"][0]
    assert list(first)[:5] == ["id", "object", "created", "owned_by", "max_model_len"]
    assert list(first.values())[:5] == ["echo", "model", CREATED, "afterword", 64]


@pytest.mark.parametrize(
    ("path", "name"),
    [
        pytest.param("echo", "echo", id="name"),
        pytest.param("default/", "echo", id="alias"),
        pytest.param("vendor/second", "vendor/second", id="name with a slash"),
        pytest.param("local/echo", "echo", id="full name"),
        pytest.param("local%2Fecho", "echo", id="full name, escaped"),
        pytest.param("local/vendor/second", "vendor/second", id="full name with two slashes"),
    ],
)
@pytest.mark.parametrize("root", ["/v1/models", "/openai/models"])
async def test_a_model_is_found_by_name_and_alias(root: str, path: str, name: str) -> None:
    async with client_of(app_of(EchoEngine(), EchoEngine())) as client:
        card = (await client.get(f"{root}/{path}")).json()
    assert card["id"] == name


async def test_a_card_says_what_the_model_can_do() -> None:
    engine = EchoEngine(n_slots=3)
    async with client_of(app_of(engine)) as client:
        card = (await client.get("/v1/models/echo")).json()
    assert card["aliases"] == ["default"]
    assert card["system_fingerprint"] == engine.fingerprint
    assert card["capabilities"] == {
        "suffix": False,
        "max_logprobs": 100,
        "reproducible": True,
        "prefix_cache": False,
        "n_slots": 3,
        "n_cells": None,
        "exact_tokens": True,
        "lacks": [],
    }
    assert card["infill_tokens"] is None
    assert card["card"] == {}


async def test_a_configured_template_is_told_as_a_way_to_fill_gaps() -> None:
    served = ServedModel("gap", EchoEngine(), CREATED, infill_template=parse_template("{prefix}|{suffix}"))
    async with client_of(create_app(Registry([served]), ServerConfig())) as client:
        card = (await client.get("/v1/models/gap")).json()
    assert card["capabilities"]["suffix"] is True
    assert card["infill_tokens"] is None
    assert card["card"] == {"infill_template": "{prefix}|{suffix}"}


async def test_an_unknown_model_is_a_404_that_says_what_there_is_and_how_one_gets_another_name() -> None:
    async with client_of(app_of(EchoEngine(), EchoEngine())) as client:
        for answer in (
            await client.get("/v1/models/gone"),
            await client.post("/v1/completions", json={"model": "gone"}),
            await client.post("/tokenize", json={"model": "gone", "prompt": ""}),
            await client.get("/tokenizer_info?model=gone"),
            await client.get("/v5/models/gone"),
        ):
            assert assert_error(answer, 404, "model", "model_not_found")["message"] == (
                "The model 'gone' does not exist on this server. It has 'local/echo', 'local/vendor/second'. "
                'With aliases = ["gone"] a table [[models]] answers to that name too.'
            )


async def test_of_many_models_an_error_names_some() -> None:
    engine = EchoEngine()
    models = [ServedModel(f"m{number}", engine, CREATED) for number in range(23)]
    async with client_of(create_app(Registry(models), ServerConfig())) as client:
        error = assert_error(await client.get("/v1/models/gone/away"), 404, "model", "model_not_found")
    assert "'local/m18', 'local/m19' and 3 more." in error["message"]


@pytest.mark.parametrize(
    ("settings", "most"), [({"max_logprobs": 7}, 7), ({"strict": True}, 5), ({"max_logprobs": 1000}, 258)]
)
async def test_cli_11_a_card_s_largest_logprobs_is_what_a_request_may_ask_for(
    settings: dict[str, Any], most: int
) -> None:
    async with client_of(app_of(**settings)) as client:
        cards = [
            (await client.get("/v1/models/echo")).json(),
            (await client.get("/v1/models")).json()["data"][0],
            (await client.get("/v5/models/local/echo")).json()["model_metadata"],
        ]
        statuses = [
            (await client.post("/v1/completions", json={"prompt": "a", "logprobs": n})).status_code
            for n in (most, most + 1)
        ]
    assert [card["capabilities"]["max_logprobs"] for card in cards] == [most] * 3
    assert statuses == [200, 400]
