"""Fixtures for tests of the gateway: a clock to set, and storage servers."""

from collections.abc import Iterator

import pytest
from redis import Redis
from tests.gateway.clock import Clock
from tests.gateway.redis_server import free_port, run_redis


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The wall clock of this process, which stands still unless a test moves it."""
    made = Clock()
    monkeypatch.setattr("time.time", made)
    return made


@pytest.fixture(scope="session")
def _redis_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with run_redis(tmp_path_factory.mktemp("redis"), free_port()) as url:
        yield url


@pytest.fixture
def redis_url(_redis_server: str) -> str:
    """A Redis with nothing in it."""
    with Redis.from_url(_redis_server) as client:
        client.flushall()
    return _redis_server
