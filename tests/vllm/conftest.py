"""One server over the vLLM of this run, with the default model in float32, for the tests of this folder."""

from collections.abc import Iterator

import httpx
import pytest
from tests.cases.conftest import Running
from tests.clients.reference import Reference
from tests.live import run_server
from tests.models.vllm import engine_on_shared_core

from afterword.api.app import create_app
from afterword.config.tree import ServerConfig
from afterword.engine.vllm.vllm_engine import VllmEngine
from afterword.registry import Registry, ServedModel

NAME = "smollm2-135m-instruct"
LAST = "test_death.py"
"""Kills the vLLM that the others share."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: item.path.name == LAST)


@pytest.fixture(scope="session")
def engine() -> VllmEngine:
    """The engine behind the server."""
    return engine_on_shared_core(max_waiting=64)


@pytest.fixture(scope="session")
def running(engine: VllmEngine) -> Iterator[Running]:
    """The server, as the fault corpus talks to it."""
    registry = Registry([ServedModel(NAME, engine, 0, aliases=("default",))])
    with (
        run_server(create_app(registry, ServerConfig())) as url,
        httpx.Client(base_url=url, timeout=120) as http,
    ):
        yield Running(url, http, engine)


@pytest.fixture(scope="session")
def server(running: Running) -> str:
    """The server's URL, as the tests of clients know it."""
    return running.url


@pytest.fixture(scope="session")
def reference() -> Reference:
    """The same model without the API; what it opens is closed with the shared core."""
    return Reference(engine_on_shared_core(max_waiting=64))
