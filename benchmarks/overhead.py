"""What the server costs apart from a model: the echo engine behind a live port, server and client on a core each.

The server's figures are those of one core: all of its threads are pinned to it. On a machine with a single core the two
share it, and the figures are the less for it.
"""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import psutil
from benchmarks.names import ECHO
from benchmarks.peers import afterword
from benchmarks.places import BENCHMARKS, OUR_PROGRAMS, ROOT, cache
from benchmarks.servers import Server, Shape, running
from benchmarks.sizes import Sizes
from benchmarks.workloads import Measures

ECHO_SHAPE = Shape(slots=255, context=8192)

KINDS: tuple[tuple[str, str, int, int], ...] = (
    ("stream_1", "stream", 1, 2000),
    ("stream_16", "stream", 16, 2000),
    ("answer_1_token", "answer", 16, 1),
    ("answer_64_tokens", "answer", 16, 64),
)
"""Name, kind of request, connections, tokens of each completion."""


async def overhead(sizes: Sizes, logs: Path) -> dict[str, Measures]:
    """Group to measures."""
    server_core, client_core = _cores()
    async with running(_pinned(server_core), ECHO_SHAPE, logs) as started:
        found = {}
        for name, kind, connections, n_tokens in KINDS:
            busy_before = _cpu_seconds(started.process_id)
            rates = await pour(client_core, started.port, kind, connections, sizes.pour_seconds, n_tokens)
            busy = _cpu_seconds(started.process_id) - busy_before
            found[f"overhead-{name}"] = _measures(kind, n_tokens, rates, busy / (1.1 * sizes.pour_seconds))
    return found


async def in_process(sizes: Sizes) -> Measures:
    """Time and, where there is a C compiler, allocations a token; see `inprocess.py`."""
    arguments = (str(OUR_PROGRAMS / "python"), str(BENCHMARKS / "inprocess.py"), str(sizes.tokens_in_process))
    found = await _json_of(*arguments)
    counter = _allocation_counter()
    if counter is None:
        return found
    counted = await _json_of(*arguments, LD_PRELOAD=str(counter), PYTHONMALLOC="malloc")
    return found | {name: value for name, value in counted.items() if name.endswith("_allocations_per_token")}


async def gateway(sizes: Sizes) -> Measures:
    """Time that keys, limits and the ledger add to a request; see `gateway.py`."""
    return await _json_of(str(OUR_PROGRAMS / "python"), "-m", "benchmarks.gateway", str(sizes.requests_in_process))


async def steps(model: Path) -> Measures:
    """Share of the engine's time outside llama.cpp; see `steps.py`."""
    return await _json_of(str(OUR_PROGRAMS / "python"), str(BENCHMARKS / "steps.py"), str(model), str(cache()))


def _measures(kind: str, n_tokens: int, rates: Mapping[str, float], server_busy: float) -> Measures:
    """The rates, and how much of the time each side computed: the server should be at 1, the client below it."""
    found = {"requests_per_s": rates["answers_per_s"], "mib_per_s": rates["mib_per_s"]}
    if kind == "stream":
        # The last chunk of each answer only ends it; tokens of a slow reader come several in a chunk.
        found = {"chunks_per_s": rates["events_per_s"], "mib_per_s": rates["mib_per_s"]}
    else:
        found["tokens_per_s"] = rates["answers_per_s"] * n_tokens
    return found | {"client_busy_share": rates["client_busy"], "server_busy_share": server_busy}


def _cores() -> tuple[int, int]:
    """One core for the server and another for the client, the same if there is only one."""
    usable = sorted(os.sched_getaffinity(0))
    return usable[0], usable[-1]


def _pinned(core: int) -> Server:
    """The server with the echo engine on one core: it starts as a child that narrows its own affinity."""
    server = afterword(ECHO, "--model", "echo")
    pin = f"import os, sys; os.sched_setaffinity(0, {{{core}}}); os.execv(sys.argv[1], sys.argv[1:])"
    return Server(ECHO, lambda shape, port: [sys.executable, "-c", pin, *server.command(shape, port)])


def _cpu_seconds(process_id: int) -> float:
    times = psutil.Process(process_id).cpu_times()
    return float(times.user + times.system)


async def pour(core: int, port: int, kind: str, connections: int, seconds: float, max_tokens: int) -> dict[str, float]:
    """What `pour.py` says of a server; the client runs on `core`."""
    numbers = (str(port), str(core), kind, str(connections), str(seconds), str(max_tokens))
    return await _json_of(sys.executable, "-m", "benchmarks.pour", *numbers)


async def _json_of(*command: str, **variables: str) -> dict[str, float]:
    """Run a program to its end; the JSON object it prints."""
    process = await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.PIPE, cwd=ROOT, env={**os.environ, **variables}
    )
    output, _ = await process.communicate()
    if process.returncode != 0:
        raise RuntimeError(f"{command[1]} ended with {process.returncode}")
    found: dict[str, float] = json.loads(output)
    return found


def _allocation_counter() -> Path | None:
    """The compiled counter; None without a C compiler."""
    target = cache() / "count_allocations.so"
    compile_it = ("cc", "-O2", "-shared", "-fPIC", "-o", str(target), str(BENCHMARKS / "count_allocations.c"))
    try:
        subprocess.run(compile_it, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return target
