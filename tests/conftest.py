"""Fixtures for tests of every layer."""

import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import pytest
import structlog
from tests import live

from afterword.engine.echo import EchoEngine


@pytest.fixture(autouse=True)
def _fresh_log() -> Iterator[None]:
    """Undo what a test did to the process-wide log: the file it was pointed at may be closed by now."""
    before = structlog.get_config() if structlog.is_configured() else None
    yield
    structlog.reset_defaults()
    if before is not None:
        structlog.configure(**before)


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


def pytest_unconfigure() -> None:
    """Close two files that llama_cpp opens on import and never closes: with warnings as errors Python complains."""
    bindings = sys.modules.get("llama_cpp._utils")
    if bindings is not None:
        bindings.outnull_file.close()
        bindings.errnull_file.close()
