"""A Ray cluster of two nodes on this machine with the server on it, once for all tests of a model."""

import json
import os
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

NODES = 2

# Tests of this folder run in the environment that `make test-cluster` builds. Without Ray there is nothing to collect.
collect_ignore_glob: list[str] = []
try:
    import ray
except ModuleNotFoundError:
    collect_ignore_glob = ["test_*.py"]


@dataclass(frozen=True, slots=True)
class Live:
    """A deployed server."""

    url: str
    client: httpx.Client
    deploy: Callable[[], object]
    """Deploy the same again, which replaces every replica."""
    samples: Callable[[], dict[str, dict[str, float]]] = field(repr=False)
    """`/metrics` as {name: {replica: value}}, summed over other labels."""


@pytest.fixture(scope="session")
def cluster_address() -> Iterator[str]:
    """A cluster of `NODES` nodes; ends with the session."""
    from ray.cluster_utils import Cluster

    # Replicas find the sources by the path that the nodes' processes inherit.
    os.environ["PYTHONPATH"] = str(Path(__file__).parents[3] / "src")
    # Each node's proxy listens; on one machine they share the port.
    node = {"num_cpus": 2, "include_dashboard": False, "object_store_memory": 150_000_000}
    cluster = Cluster(initialize_head=True, head_node_args=node)
    try:
        for _ in range(NODES - 1):
            cluster.add_node(num_cpus=2, object_store_memory=150_000_000)
        cluster.wait_for_nodes()
        yield cluster.address
    finally:
        ray.shutdown()
        cluster.shutdown()


@contextmanager
def deployed(address: str, folder: Path, **settings: str) -> Iterator[Live]:
    """The server on the cluster with `settings`, taken off at the end."""
    from afterword.cluster import deploy
    from afterword.config import load_config

    port = _free_port()
    config = load_config({"port": str(port), "database": "none", **settings}, {}, folder)
    url = f"http://127.0.0.1:{port}"
    with deploy.connected(address):
        deploy.deploy(config)
        try:
            with httpx.Client(base_url=url, timeout=120) as client:
                _until_ready(client)
                yield Live(url, client, lambda: deploy.deploy(config), lambda: _samples(client))
        finally:
            deploy.remove()


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


def _until_ready(client: httpx.Client) -> None:
    deadline = time.monotonic() + 60
    while client.get("/ready").status_code != 200:
        assert time.monotonic() < deadline, "the server did not become ready"
        time.sleep(0.2)


def _samples(client: httpx.Client) -> dict[str, dict[str, float]]:
    from prometheus_client.parser import text_string_to_metric_families

    found: dict[str, dict[str, float]] = {}
    for family in text_string_to_metric_families(client.get("/metrics").text):
        for sample in family.samples:
            by_replica = found.setdefault(sample.name, {})
            replica = sample.labels["replica"]
            by_replica[replica] = by_replica.get(replica, 0.0) + sample.value
    return found


def stream(client: httpx.Client, **body: Any) -> Iterator[dict[str, Any]]:
    """The chunks of a streamed completion; ends at `[DONE]`, or when the connection does."""
    with client.stream("POST", "/v1/completions", json={**body, "stream": True}) as response:
        assert response.status_code == 200, response.read()
        for line in response.iter_lines():
            if line == "data: [DONE]":
                return
            if line.startswith("data: "):
                yield json.loads(line.removeprefix("data: "))
