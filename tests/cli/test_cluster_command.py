"""A server on a cluster of its own, and signals; the cluster is a fake."""

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from afterword.cli import cluster_command
from afterword.cli.cluster_command import LOCAL, serve_on_cluster
from afterword.config.load import load_config
from afterword.config.tree import Config
from afterword.errors import ConfigurationError


class Cluster:
    """What is deployed on it, and what comes then."""

    def __init__(self, *then: Callable[[], None]) -> None:
        self.deployed: list[Config] = []
        self.removed = False
        self._then = iter(then)

    @contextmanager
    def connected(self, address: str | None) -> Iterator[None]:
        assert address is None
        yield

    def deploy(self, config: Config) -> dict[str, object]:
        self.deployed.append(config)
        next(self._then)()
        return {}

    def remove(self) -> None:
        self.removed = True


@pytest.fixture(autouse=True)
def signals() -> Iterator[None]:
    """Puts back what signals did before."""
    before = {number: signal.getsignal(number) for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def sends(number: int) -> Callable[[], None]:
    return lambda: os.kill(os.getpid(), number)


def test_sighup_deploys_what_the_configuration_says_then(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config, later = (load_config({"parallel": parallel}, {}, tmp_path) for parallel in (1, 2))

    def fail() -> None:
        os.kill(os.getpid(), signal.SIGHUP)
        raise ConfigurationError("no such model")

    cluster = Cluster(sends(signal.SIGHUP), fail, sends(signal.SIGTERM))
    monkeypatch.setattr(cluster_command, "_ray_side", lambda: cluster)
    monkeypatch.setattr("afterword.cli.ready.cluster_ready_line", lambda *_: "")
    read = iter((config, later))
    with capture_logs() as logs:
        serve_on_cluster(config, LOCAL, lambda: next(read))
    assert cluster.deployed == [config, config, later]
    assert cluster.removed
    assert [(line["log_level"], line.get("reason")) for line in logs] == [("error", "no such model"), ("info", None)]


def test_models_that_are_loaded_when_they_are_asked_for_are_not_deployed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "afterword.toml").write_text(
        "[[models]]\npath = 'echo'\n[[models]]\npath = 'echo'\nname = 'b'\nkeep_alive = '5m'\n"
    )
    config = load_config({}, {}, tmp_path)
    cluster = Cluster(sends(signal.SIGHUP), sends(signal.SIGTERM))
    monkeypatch.setattr(cluster_command, "_ray_side", lambda: cluster)
    monkeypatch.setattr("afterword.cli.ready.cluster_ready_line", lambda *_: "")
    serve_on_cluster(config, LOCAL, lambda: config)
    assert [[model.name for model in each.models] for each in cluster.deployed] == [["echo"], ["echo"]]
    with pytest.raises(ConfigurationError, match="All models have a keep_alive"):
        serve_on_cluster(config.model_copy(update={"models": config.models[1:]}), LOCAL, lambda: config)
