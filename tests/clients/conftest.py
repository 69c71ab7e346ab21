"""Fixtures for tests of real clients: a live server, the same model in this process, and the clients' environments."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from tests.clients.environments import environment
from tests.clients.reference import Reference
from tests.clients.running import Client

from afterword.config.model import DEFAULT_MODEL
from afterword.engine.llama.llama_loading import LlamaSettings, load_engine
from afterword.loading.embedded import model_file

SOURCES = Path(__file__).resolve().parents[2] / "src"
SERVE = "from afterword.cli.main import app; app()"
CONTEXT = 2048
# One thread: a second one makes a model of this size no faster where tests, server and client share few cores.
SETTINGS = ("--port", "0", "--context", str(CONTEXT), "--parallel", "8", "--threads", "1")

OpenClient = Callable[[str], Client]


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the server finds out about the model, the engine of this process need not find out again."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="session")
def server(cache: Path) -> Iterator[str]:
    """`afterword serve` with the default model, as its own process; gives its URL without a path."""
    with subprocess.Popen(
        [sys.executable, "-c", SERVE, "serve", *SETTINGS, "--cache-dir", str(cache)],
        cwd=cache,
        env={**os.environ, "PYTHONPATH": str(SOURCES), "AFTERWORD_LOG_LEVEL": "warning"},
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert line.startswith("Ready at "), line
            yield line.split()[2].removesuffix("/v1:")
        finally:
            process.terminate()


@pytest.fixture(scope="session")
def reference(cache: Path) -> Iterator[Reference]:
    """The default model in this process, computed as the server does."""
    settings = LlamaSettings(
        path=model_file(DEFAULT_MODEL.name),
        context=CONTEXT,
        parallel=2,
        threads=1,
        max_waiting=16,
        memory_bytes=None,
        cache_dir=cache,
        kernels="own",
    )
    with closing(Reference(load_engine(settings))) as made:
        yield made


@pytest.fixture(scope="session")
def open_client(tmp_path_factory: pytest.TempPathFactory) -> OpenClient:
    """The client of that name, with an empty home."""

    def open_(name: str) -> Client:
        folder = environment(name)
        if folder is None:
            # `make test` and `make test-clients` build what they need first; this is for other ways to run tests.
            pytest.skip(f"not built: python -m tests.clients.environments {name}")
        return Client(name, folder, tmp_path_factory.mktemp(name))

    return open_
