"""Fixtures for tests of every layer."""

import os
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
import structlog
from hypothesis import settings
from tests import live
from tests.models.vllm import close_shared_core

from afterword import logs
from afterword.engine.echo import EchoEngine

# OpenMP's workers that wait leave the processors to the other tests. It reads this when llama.cpp is loaded.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

# On a busy machine any example may take long.
settings.register_profile("afterword", deadline=None)
settings.load_profile("afterword")


@pytest.fixture(autouse=True, scope="session")
def _own_data_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep servers and commands that tests start away from the keys and the ledger of whoever runs the tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_DATA_HOME", str(tmp_path_factory.mktemp("data")))
        patch.delenv("AFTERWORD_DATABASE", raising=False)
        yield


@pytest.fixture(autouse=True)
def _fresh_log() -> Iterator[None]:
    """Log to stderr as the program does, whatever a test before did: the file it chose may be closed by now."""
    logs.configure()
    yield
    structlog.reset_defaults()


@pytest.fixture(scope="session")
def cache_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Keeps the default model's hash, copy and probe, which take seconds, between the engines of a run."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
async def echo() -> AsyncIterator[EchoEngine]:
    """An echo engine of this test's own, closed after it."""
    engine = EchoEngine()
    yield engine
    await engine.aclose()


@pytest.fixture
def run_server() -> Callable[[Any], AbstractContextManager[str]]:
    """Serves an application on a real port within a context: `tests.live.run_server`."""
    return live.run_server


def pytest_sessionfinish() -> None:
    """End the vLLM that tests shared, if any did."""
    close_shared_core()


def pytest_unconfigure() -> None:
    """Close two files that llama_cpp opens on import and never closes: with warnings as errors Python complains."""
    bindings = sys.modules.get("llama_cpp._utils")
    if bindings is not None:
        bindings.outnull_file.close()
        bindings.errnull_file.close()
