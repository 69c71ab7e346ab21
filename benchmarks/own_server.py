"""Starts this server on loopback for the commands that look at its reliability, and stops it."""

import asyncio
import os
import resource
import statistics
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import httpx

PROGRAM = (sys.executable, "-c", "from afterword.launch import main; main()")
SECONDS_TO_START = 120
SECONDS_TO_STOP = 60


@dataclass(frozen=True, slots=True)
class OwnServer:
    """A server that answers."""

    http: httpx.AsyncClient
    """A client of it, with its address as the base."""
    port: int
    process_id: int

    @property
    def children(self) -> list[int]:
        """Ids of the processes of its models, in the order of their start."""
        # Each thread has those that it has started.
        lists = (Path(f"/proc/{self.process_id}/task") / name / "children" for name in self._threads)
        return sorted(int(number) for one in lists for number in one.read_text().split())

    @property
    def _threads(self) -> list[str]:
        return os.listdir(f"/proc/{self.process_id}/task")

    @property
    def resident_bytes(self) -> int:
        """Memory that the process with the connections has now, without its models' processes."""
        return resident_bytes(self.process_id)


def resident_bytes(process_id: int) -> int:
    """Memory of a process that is its own now: pages of files that it has mapped are left out."""
    lines = Path(f"/proc/{process_id}/status").read_text().splitlines()
    return 1024 * int(next(line for line in lines if line.startswith("RssAnon")).split()[1])


@asynccontextmanager
async def serving(
    *options: str,
    limits: Mapping[int, int] | None = None,
    log: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> AsyncIterator[OwnServer]:
    """Run `afterword serve` with `options` on a free port; SIGTERM at the end.

    `limits`: resources of the system (`resource.RLIMIT_...`) and how much of them it gets. `log`: the file for its log
    lines; None: they are dropped. `environment`: variables beside those of this process, of which none configures it.
    """

    def limit() -> None:
        for what, most in (limits or {}).items():
            resource.setrlimit(what, (most, most))

    ours = {name: value for name, value in os.environ.items() if not name.startswith("AFTERWORD_")}
    with (log or Path(os.devnull)).open("ab") as errors:
        process = await asyncio.create_subprocess_exec(
            *(*PROGRAM, "serve", "--port", "0", *options),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=errors,
            env={**ours, **(environment or {})},
            preexec_fn=limit,
        )
    assert process.stdout is not None
    try:
        ready = (await asyncio.wait_for(process.stdout.readline(), SECONDS_TO_START)).decode()
        if not ready:
            raise RuntimeError("the server has ended before it listened; its log says why")
        url = ready.split()[2].removesuffix("/v1:")
        async with httpx.AsyncClient(base_url=url, timeout=300) as http:
            yield OwnServer(http, http.base_url.port or 80, process.pid)
    finally:
        await _stop(process)


async def _stop(process: asyncio.subprocess.Process) -> None:
    with suppress(ProcessLookupError):
        process.terminate()
    try:
        await asyncio.wait_for(process.wait(), SECONDS_TO_STOP)
    except TimeoutError:
        process.kill()
        await process.wait()
        raise


def make_key(database: Path, name: str, *options: str) -> str:
    """A new key of the gateway in that file."""
    command = [*PROGRAM, "keys", "create", name, "--database", str(database), *options]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def percentile(values: list[float], share: int) -> float:
    """That many of a hundred values are at most this; of few values the highest."""
    ranked = sorted(values)
    return ranked[min(len(ranked) - 1, len(ranked) * share // 100)]


def percentiles(seconds: list[float]) -> str:
    """Median, 99th percentile and the highest of some times, in words."""
    middle, high = statistics.median(seconds), percentile(seconds, 99)
    return f"{middle:.3f} s in the median, {high:.3f} s at the 99th percentile, {max(seconds):.3f} s at most"
