"""Runs a real llama-server for a test."""

import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

SECONDS_TO_START = 60


@contextmanager
def running_llama_server(program: str, model: Path, *, n_slots: int, context: int) -> Iterator[str]:
    """Start `program` on a free port of 127.0.0.1 with room for `context` tokens in each slot; yields its base URL."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    command = [program, "-m", str(model), "--host", "127.0.0.1", "--port", str(port), "-t", "1", "-tb", "1"]
    command += ["-np", str(n_slots), "-c", str(n_slots * context), "--no-warmup"]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    url = f"http://127.0.0.1:{port}"
    try:
        _wait_until_ready(server, url)
        yield url
    finally:
        # Asked to stop in good order it waits for connections that nobody will use again.
        server.kill()
        server.wait()


def _wait_until_ready(server: "subprocess.Popen[bytes]", url: str) -> None:
    give_up = time.monotonic() + SECONDS_TO_START
    while time.monotonic() < give_up:
        if server.poll() is not None:
            raise RuntimeError(f"llama-server ended with {server.returncode}")
        try:
            if httpx.get(f"{url}/health", timeout=1).status_code == 200:
                return
        except httpx.TransportError:
            # Not listening yet.
            time.sleep(0.05)
    raise TimeoutError("llama-server did not start")
