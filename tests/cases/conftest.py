"""One server with the default model for all cases that need one."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.live import run_server

from afterword.api.app import create_app
from afterword.config.load import load_config
from afterword.config.tree import ServerConfig
from afterword.engine.base import Engine
from afterword.loading.load_registry import load_registry

CONTEXT = 1024
PARALLEL = 8


@dataclass(frozen=True, slots=True)
class Running:
    """A server with a model and a way to talk to it."""

    url: str
    http: httpx.Client
    engine: Engine

    def post(self, body: Mapping[str, Any]) -> httpx.Response:
        """Send a completion request."""
        return self.http.post("/v1/completions", json=body)


@contextmanager
def serving_default_model(cache_dir: Path) -> Iterator[Running]:
    """A fresh server: nothing cached, nothing asked yet."""
    flags = {"context": str(CONTEXT), "parallel": str(PARALLEL), "cache_dir": str(cache_dir), "threads": "1"}
    registry = load_registry(load_config(flags, {}, cache_dir))
    with (
        run_server(create_app(registry, ServerConfig())) as url,
        httpx.Client(base_url=url, timeout=120) as http,
    ):
        yield Running(url, http, registry.get(None).engine)


@pytest.fixture(scope="session")
def server(cache_dir: Path) -> Iterator[Running]:
    with serving_default_model(cache_dir) as running:
        yield running


@pytest.fixture
def fresh_server(cache_dir: Path) -> Iterator[Running]:
    with serving_default_model(cache_dir) as running:
        yield running
