"""`afterword serve --cluster` and `afterword cluster remove` as commands, on a cluster that is already there."""

import os
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
from tests.cluster.live.conftest import SOURCES, Cluster

from afterword.config.model import RETIRED_NAMES

pytestmark = pytest.mark.cluster


def afterword(folder: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-c", "from afterword.cli.main import app; app()", *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(SOURCES)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def serve(cluster: Cluster, folder: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    where = ("--cluster", cluster.address, "--port", str(cluster.port), "--database", "none")
    return afterword(folder, "serve", *where, *arguments)


def test_a_server_is_put_on_a_cluster_and_taken_off(cluster: Cluster, tmp_path: Path) -> None:
    done = serve(cluster, tmp_path, "--model", "echo", "--context", "64")
    names = ", ".join(["default", *RETIRED_NAMES])
    assert done.stdout == (
        f"Ready at {cluster.url}/v1 on every node: echo (also {names}), context 64; playground at {cluster.url}/\n"
    ), done.stderr
    body = {"prompt": "abc", "max_tokens": 3, "temperature": 0}
    assert httpx.post(f"{cluster.url}/v1/completions", json=body).json()["choices"][0]["text"] == "abc"
    done = afterword(tmp_path, "cluster", "remove", cluster.address)
    assert (done.returncode, done.stdout) == (0, "Removed.\n"), done.stderr
    with pytest.raises(httpx.ConnectError):
        httpx.post(f"{cluster.url}/v1/completions", json=body)


def test_a_model_that_no_replica_can_load_is_said_in_a_sentence(cluster: Cluster, tmp_path: Path) -> None:
    (tmp_path / "broken.gguf").write_bytes(b"GGUF, but no more of it")
    done = serve(cluster, tmp_path, "--model", "broken.gguf")
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert "broken.gguf" in done.stderr.splitlines()[-1]
    assert done.stderr.splitlines()[-1].startswith("Error: afterword-broken")


def test_an_address_without_a_cluster_is_said_in_a_sentence(tmp_path: Path) -> None:
    done = afterword(tmp_path, "serve", "--cluster", "127.0.0.1:1", "--model", "echo", "--database", "none")
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith("Error: There is no Ray cluster at 127.0.0.1:1: ")
