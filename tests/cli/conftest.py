"""Fixtures for tests of the command line: a runner, an empty directory to run in, and a server to ask."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Protocol

import pytest
from typer.testing import CliRunner, Result

from afterword.api.app import create_app
from afterword.cli.main import app
from afterword.config.tree import ServerConfig
from afterword.engine.echo import EchoEngine
from afterword.gateway.opening import single_key_gateway
from afterword.registry import Registry, ServedModel

KEY = "secret"


class Afterword(Protocol):
    """Runs the program with arguments, and text on its stdin."""

    def __call__(self, *arguments: str, stdin: str | None = None) -> Result: ...


@pytest.fixture
def afterword(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Afterword:
    """The program, run in an empty directory with none of the user's settings."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AFTERWORD_MODEL", "echo")
    monkeypatch.setenv("AFTERWORD_DATABASE", str(tmp_path / "afterword.db"))
    for name in ("AFTERWORD_API_KEY", "AFTERWORD_CONFIG"):
        monkeypatch.delenv(name, raising=False)

    def run(*arguments: str, stdin: str | None = None) -> Result:
        return CliRunner().invoke(app, arguments, input=stdin)

    return run


@pytest.fixture
def server(run_server: Callable[[Any], AbstractContextManager[str]]) -> Iterator[str]:
    """The base URL of a server with two echo models, `first` and `second`, that wants the key `KEY`."""
    models = [ServedModel(name, EchoEngine(), 0) for name in ("first", "second")]
    with run_server(create_app(Registry(models), ServerConfig(), single_key_gateway(KEY))) as url:
        yield url
