"""A real Redis for tests: started on a free port of 127.0.0.1, keeping nothing on disk."""

import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from redis import Redis
from redis.backoff import ConstantBackoff
from redis.exceptions import ConnectionError as NotThereYet
from redis.retry import Retry

PROGRAM = shutil.which("redis-server")
STARTING = Retry(ConstantBackoff(0.02), 500)


def free_port() -> int:
    """A port nobody listens on at the moment."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
    return port


@contextmanager
def run_redis(directory: Path, port: int) -> Iterator[str]:
    """The URL of a Redis that runs within the context. Skips the test where none is installed."""
    if PROGRAM is None:
        pytest.skip("redis-server is not installed")
    options = ["--port", str(port), "--bind", "127.0.0.1", "--dir", str(directory), "--save", "", "--appendonly", "no"]
    with subprocess.Popen([PROGRAM, *options], stdout=subprocess.DEVNULL) as process:
        try:
            url = f"redis://127.0.0.1:{port}"
            with Redis.from_url(url, retry=STARTING, retry_on_error=[NotThereYet]) as client:
                client.ping()
            yield url
        finally:
            process.terminate()
