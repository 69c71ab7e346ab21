"""A Ray cluster of two nodes on this machine, once for all tests, and the server on it in one shape after another.

A file's tests share a deployment; the next file's replaces it.
"""

import json
import os
import socket
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

NODES = 2
SOURCES = Path(__file__).parents[3] / "src"

# Tests of this folder run in the environment that `make test-cluster` builds. Without Ray there is nothing to collect.
collect_ignore_glob: list[str] = []
try:
    import ray
except ModuleNotFoundError:
    collect_ignore_glob = ["test_*.py"]

RAYS_OWN_WARNINGS = (
    # ray.serve's own models, as they are imported.
    "ignore:Using extra keyword arguments on `Field` is deprecated:DeprecationWarning",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Warnings are errors, those that Ray gives of itself excepted."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            for warning in RAYS_OWN_WARNINGS:
                item.add_marker(pytest.mark.filterwarnings(warning))


@dataclass(frozen=True, slots=True)
class Cluster:
    """The nodes, and the port that every deployment on them serves at."""

    address: str
    port: int

    @property
    def url(self) -> str:
        """Of the server, without a slash at the end."""
        return f"http://127.0.0.1:{self.port}"


@dataclass(frozen=True, slots=True)
class Live:
    """A deployed server."""

    url: str
    client: httpx.Client
    redeploy: Callable[[], object]
    """Deploy the same again, which replaces every replica."""

    def samples(self, name: str) -> dict[str, float]:
        """A counter of `/metrics` by replica, summed over other labels."""
        from prometheus_client.parser import text_string_to_metric_families

        found: dict[str, float] = {}
        for family in text_string_to_metric_families(self.client.get("/metrics").text):
            for sample in family.samples:
                if sample.name == name:
                    replica = sample.labels["replica"]
                    found[replica] = found.get(replica, 0.0) + sample.value
        return found

    def stream(self, **body: Any) -> Iterator[dict[str, Any]]:
        """The chunks of a streamed completion; ends at `[DONE]`, or when the connection does."""
        with self.client.stream("POST", "/v1/completions", json={**body, "stream": True}) as response:
            assert response.status_code == 200, response.read()
            for line in response.iter_lines():
                if line == "data: [DONE]":
                    return
                if line.startswith("data: "):
                    yield json.loads(line.removeprefix("data: "))


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """`NODES` nodes, and a connection of this process to them; both end with the session."""
    from ray.cluster_utils import Cluster as Nodes

    from afterword.cluster import deploy

    # Replicas find the sources by the path that the nodes' processes inherit.
    os.environ["PYTHONPATH"] = str(SOURCES)
    room = {"num_cpus": 2, "object_store_memory": 150_000_000}
    nodes = Nodes(initialize_head=True, head_node_args={**room, "include_dashboard": False})
    try:
        for _ in range(NODES - 1):
            nodes.add_node(**room)
        nodes.wait_for_nodes()
        with deploy.connected(nodes.address):
            yield Cluster(nodes.address, _free_port())
            deploy.remove()
    finally:
        ray.shutdown()
        nodes.shutdown()


Deploy = Callable[..., Live]


@pytest.fixture(scope="module")
def deploy_server(cluster: Cluster) -> Iterator[Deploy]:
    """Puts a server with the given settings on the cluster, in place of what was there."""
    from afterword.cluster import deploy
    from afterword.config.load import load_config

    with httpx.Client(base_url=cluster.url, timeout=120) as client:

        def put(folder: Path, **settings: str) -> Live:
            config = load_config({"port": str(cluster.port), "database": "none", **settings}, {}, folder)
            deploy.deploy(config)
            until(lambda: client.get("/ready").status_code == 200)
            return Live(cluster.url, client, lambda: deploy.deploy(config))

        yield put


def until(condition: Callable[[], bool], seconds: float = 60) -> None:
    """Wait for what other processes will do. Fails after `seconds`."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.1)


def engine_replicas() -> dict[str, int]:
    """Process ids of the engine replicas by their ids, as Ray lists them."""
    from ray._private.state import actors

    named = [actor for actor in actors().values() if actor["State"] == "ALIVE" and "#engine#" in actor["Name"]]
    return {actor["Name"].rpartition("#")[2]: actor["Pid"] for actor in named}


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port
