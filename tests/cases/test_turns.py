"""Nobody waits long for what others have sent before: over real sockets, counted in steps of the engine."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx
import pytest
from tests.api.gateways import ListedRows, gateway_of
from tests.api.served import is_idle, wait_until
from tests.cases.case import NEVER_ENDS, Body
from tests.cases.conftest import CONTEXT, PARALLEL
from tests.live import run_server

from afterword.api.app import create_app
from afterword.config.load import load_config
from afterword.config.tree import ServerConfig
from afterword.engine.base import Engine
from afterword.gateway.grant import Grant
from afterword.loading.load_registry import load_registry

pytestmark = pytest.mark.model

FOUR = [{"prompt": f"Story {number}", "n": 128, "max_tokens": 64, "stream": True, **NEVER_ENDS} for number in range(4)]
TRIES = 5
"""Of which the best counts: while the machine does something else, the engine may take a step more."""


@contextmanager
def two_keys(cache_dir: Path) -> Iterator[tuple[str, Engine]]:
    flags = {"context": str(CONTEXT), "parallel": str(PARALLEL), "cache_dir": str(cache_dir), "threads": "1"}
    registry = load_registry(load_config(flags, {}, cache_dir))
    gateway = gateway_of({"a": Grant("a", None), "b": Grant("b", None)}, ledger=ListedRows())
    with run_server(create_app(registry, ServerConfig(), gateway)) as url:
        yield url, registry.get(None).engine


def client(url: str, key: str) -> httpx.Client:
    return httpx.Client(base_url=url, timeout=120, headers={"authorization": f"Bearer {key}"})


def steps_of_a_token(http: httpx.Client, engine: Engine, name: str) -> int:
    """Steps that the engine takes from the request to the answer."""
    counts = []
    for number in range(TRIES):
        body: Body = {"prompt": f"{name} {number}: the answer is", "max_tokens": 1}
        before = engine.stats().steps
        assert http.post("/v1/completions", json=body).json()["usage"]["completion_tokens"] == 1
        counts.append(engine.stats().steps - before)
    return min(counts)


@pytest.mark.parametrize("key", [pytest.param("b", id="another-key"), pytest.param("a", id="the-same-key")])
def test_gate_10_a_token_behind_four_requests_of_128_comes_within_ten_times(cache_dir: Path, key: str) -> None:
    with two_keys(cache_dir) as (url, engine), client(url, "a") as others, client(url, key) as http:
        alone = steps_of_a_token(http, engine, "Alone")
        with ExitStack() as stack:
            streams = [stack.enter_context(others.stream("POST", "/v1/completions", json=body)) for body in FOUR]
            lines = [stream.iter_lines() for stream in streams]
            # The first event: it has a slot, or had one.
            assert all(next(events).startswith("data: ") for events in lines)
            assert engine.stats().running == PARALLEL
            behind = steps_of_a_token(http, engine, "Behind")
            assert engine.stats().waiting > 300
        assert 1 <= behind <= 10 * alone
        wait_until(url, lambda: is_idle(engine))
