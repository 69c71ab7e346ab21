"""What serving from a cluster costs beside a single server: one replica on a Ray cluster of this machine alone.

Both run the same engine with nothing pinned but the client, which shares the machine with them. Needs the environment
that `make test-cluster` builds.
"""

import os
from pathlib import Path
from statistics import median

from benchmarks.names import ECHO, ON_CLUSTER, OURS
from benchmarks.overhead import pour
from benchmarks.peers import afterword
from benchmarks.places import ROOT, Places, cache
from benchmarks.prompts import request
from benchmarks.servers import NotStarted, Running, Server, Shape, running
from benchmarks.sizes import Sizes
from benchmarks.workloads import Measures

SHAPE = Shape(slots=16, context=2048)
PROMPT = "the quick brown fox jumps over the lazy dog and the dog does not mind"
FIRST_TOKENS = 10
"""Requests, one after the other, whose time to the first token is taken, for each repeat of a workload."""


async def cluster(sizes: Sizes, places: Places) -> dict[str, Measures]:
    """Server to measures. Raises `NotStarted` if there is no Ray."""
    found = {}
    for name, model in ((ECHO, "echo"), (OURS, str(places.model))):
        single = afterword(name, "--model", model, "--database", "none")
        for server in (single, _on_cluster(single)):
            async with running(server, SHAPE, places.logs) as started:
                found[server.name] = await _measure(started, sizes)
    return found


async def _measure(started: Running, sizes: Sizes) -> Measures:
    count = FIRST_TOKENS * sizes.repeats
    firsts = [(await started.client.stream(request(PROMPT, 4))).first for _ in range(count)]
    found = {"first_token_ms": 1000 * median(firsts)}
    core = max(os.sched_getaffinity(0))
    for connections in (1, 16):
        rates = await pour(core, started.port, "stream", connections, sizes.pour_seconds / 2, 256)
        found[f"streams_{connections}_chunks_per_s"] = rates["events_per_s"]
    return found


def _on_cluster(single: Server) -> Server:
    """The same server, started by the environment with Ray on a cluster of its own."""
    python = _python_with_ray()

    def command(shape: Shape, port: int) -> list[str]:
        program = "from afterword.cli.main import app; app()"
        return [str(python), "-c", program, *single.command(shape, port)[1:], "--cluster", "local"]

    return Server(single.name + ON_CLUSTER, command, {"PYTHONPATH": str(ROOT / "src")})


def _python_with_ray() -> Path:
    environments = sorted(cache().glob("cluster-*/.stamp-cluster"), key=lambda stamp: stamp.stat().st_mtime)
    if not environments:
        raise NotStarted("there is no environment with Ray: make test-cluster builds it")
    return environments[-1].parent / "bin" / "python"
