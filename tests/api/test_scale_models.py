"""The models routes of the Scale GP dialect."""

import pytest
from tests.api.served import CREATED, BreakingEngine, app_of, assert_error, client_of

from afterword.api.app import create_app
from afterword.api.scale_models import STATUS
from afterword.config.tree import ServerConfig
from afterword.engine.echo import EchoEngine
from afterword.errors import EngineFailed
from afterword.metrics import STATES
from afterword.registry import Registry, ServedModel


async def test_a_model_has_every_field_of_the_sdk_and_what_the_other_dialect_says() -> None:
    async with client_of(app_of()) as client:
        model = (await client.get("/v5/models/local/echo")).json()
        card = (await client.get("/v1/models/local/echo")).json()
    documented = {name: card.pop(name) for name in ("id", "object", "created", "owned_by")}
    assert documented["id"] == "echo"
    assert model == {
        "id": "local/echo",
        "object": "model",
        "name": "echo",
        "model_vendor": "local",
        "model_type": "completion",
        "model_availability": "available",
        "status": "ready",
        "status_reason": None,
        "created_at": "2023-11-14T22:13:20+00:00",
        "created_by_identity_type": "service_account",
        "created_by_user_id": "afterword",
        "vendor_configuration": None,
        "model_metadata": card,
    }


@pytest.mark.parametrize(
    ("state", "status", "availability"),
    [
        ("ready", "ready", "available"),
        ("loading", "deploying", "unavailable"),
        ("unreachable", "failed", "unavailable"),
        ("failed", "failed", "unavailable"),
        ("closed", "failed", "unavailable"),
    ],
)
async def test_a_model_s_status_is_its_engine_s_state(state: str, status: str, availability: str) -> None:
    engine = BreakingEngine(EngineFailed("It broke."), 0, state=state)
    async with client_of(app_of(engine)) as client:
        model = (await client.get("/v5/models/default")).json()
    assert (model["status"], model["model_availability"]) == (status, availability)
    assert (model["status_reason"] is None) == (status == "ready")


def test_every_state_has_a_status() -> None:
    assert set(STATUS) == set(STATES)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("", ["local/echo", "azure/echo-2", "local/a"]),
        ("?model_vendor=local", ["local/echo", "local/a"]),
        ("?name=echo", ["local/echo"]),
        ("?sort_by=name", ["local/a", "local/echo", "azure/echo-2"]),
        ("?sort_by=id&sort_order=desc", ["local/echo", "local/a", "azure/echo-2"]),
        ("?sort_by=created_at", ["azure/echo-2", "local/echo", "local/a"]),
        ("?sort_by=model_vendor&limit=1", ["azure/echo-2"]),
        ("?starting_after=local%2Fecho", ["azure/echo-2", "local/a"]),
    ],
)
@pytest.mark.parametrize("path", ["/v5/models", "/v5/models/"])
async def test_models_are_listed_filtered_and_sorted(path: str, query: str, expected: list[str]) -> None:
    models = [
        ServedModel("echo", EchoEngine(), CREATED),
        ServedModel("echo-2", EchoEngine(), CREATED - 60, vendor="azure"),
        ServedModel("a", EchoEngine(), CREATED + 60),
    ]
    async with client_of(create_app(Registry(models), ServerConfig())) as client:
        body = (await client.get(path + query)).json()
    assert list(body) == ["items", "has_more"]
    assert [item["id"] for item in body["items"]] == expected
    assert body["has_more"] is ("limit" in query)


async def test_models_can_only_be_read() -> None:
    async with client_of(app_of()) as client:
        for method, path in (("POST", "/v5/models"), ("PATCH", "/v5/models/a/b"), ("DELETE", "/v5/models/a/b")):
            refused = await client.request(method, path)
            assert_error(refused, 405, None, "method_not_supported")
            assert refused.headers["allow"] == "GET"


async def test_a_bad_parameter_is_refused_by_name() -> None:
    async with client_of(app_of()) as client:
        assert_error(await client.get("/v5/models?limit=0"), 400, "limit", "invalid_value")
