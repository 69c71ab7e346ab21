"""Fixtures for tests of every layer."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractContextManager
from typing import Any

import pytest
from tests import live

from afterword.engine.echo import EchoEngine


@pytest.fixture
async def echo() -> AsyncIterator[EchoEngine]:
    """An echo engine of this test's own, closed after it."""
    engine = EchoEngine()
    yield engine
    await engine.aclose()


@pytest.fixture
def run_server() -> Callable[[Any], AbstractContextManager[str]]:
    """See `tests.live.run_server`."""
    return live.run_server
