"""Starts this server on loopback for the commands that look at its reliability, and stops it."""

import asyncio
import os
import resource
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import httpx

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
        return list(map(int, Path(f"/proc/{self.process_id}/task/{self.process_id}/children").read_text().split()))

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
            *(sys.executable, "-c", "from afterword.launch import main; main()", "serve", "--port", "0", *options),
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
