"""`afterword serve` as its own process: what it says, what it refuses, and how it stops."""

import importlib.util
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import httpx
import pytest
from tests.cli.conftest import Afterword

COMMAND = [sys.executable, "-c", "from afterword.launch import main; main()", "serve", "--model", "echo", "--port", "0"]
SOURCES = Path(__file__).resolve().parents[2] / "src"


@contextmanager
def serving(
    folder: Path, *options: str, command: Sequence[str] = COMMAND
) -> Iterator[tuple["subprocess.Popen[str]", str]]:
    """The running server and the line it said when it was ready."""
    environment = {**os.environ, "PYTHONPATH": str(SOURCES)}
    with subprocess.Popen(
        [*command, *options], cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            yield process, process.stdout.readline()
        finally:
            process.kill()


def address(line: str) -> str:
    found = re.search(r"http://\S+/v1", line)
    assert found is not None, line
    return found[0]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=lambda number: signal.Signals(number).name)
def test_a_server_says_where_it_is_and_stops_in_good_order(tmp_path: Path, number: int) -> None:
    with serving(tmp_path, "--context", "64", "--parallel", "2") as (process, line):
        assert re.fullmatch(
            r"Ready at http://127\.0\.0\.1:\d+/v1: echo "
            r"\(also default, gpt-3\.5-turbo-instruct, davinci-002, babbage-002\), context 64, 2 slots; "
            r"\d+ MiB of memory in use; playground at http://127\.0\.0\.1:\d+/\n",
            line,
        )
        body = {"prompt": "ab", "temperature": 0, "max_tokens": 4}
        assert httpx.post(address(line) + "/completions", json=body).json()["choices"][0]["text"] == "abab"
        process.send_signal(number)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 0
    assert out == ""
    assert "Traceback" not in err


def test_settings_reach_the_http_layer(tmp_path: Path) -> None:
    with serving(tmp_path, "--api-key", "k", "--strict", "--max-logprobs", "7") as (_, line):
        url = address(line) + "/completions"
        assert httpx.post(url, json={}).status_code == 401
        key = {"Authorization": "Bearer k"}
        assert httpx.post(url, json={"unknown": 1}, headers=key).status_code == 400
        assert "at most" in httpx.post(url, json={"logprobs": 8}, headers=key).json()["error"]["message"]


@pytest.mark.parametrize("named", ["words.txt", "policy:judge"])
def test_a_content_filter_is_found_where_the_server_was_started(tmp_path: Path, named: str) -> None:
    (tmp_path / "words.txt").write_text("ba", encoding="utf-8")
    judge = "def judge(text, final, context):\n    return Flag(text.find('b')) if 'b' in text else None\n"
    source = f"from afterword.completions.filter.verdict import Flag\n{judge}"
    (tmp_path / "policy.py").write_text(source, encoding="utf-8")
    with serving(tmp_path, "--content-filter", named) as (_, line):
        body = {"prompt": "a ba ", "temperature": 0, "max_tokens": 9}
        choice = httpx.post(address(line) + "/completions", json=body).json()["choices"][0]
    assert (choice["text"], choice["finish_reason"]) == ("a ", "content_filter")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        pytest.param(["--host", "0.0.0.0"], "host is 0.0.0.0, which other machines may reach", id="exposed"),
        pytest.param(["--model", "no.gguf"], "model is 'no.gguf': it must be", id="model"),
        pytest.param(["--content-filter", "no.txt"], "The content filter's list no.txt cannot be read", id="list"),
        pytest.param(["--content-filter", "nomod:f"], "The content filter nomod:f cannot be loaded: No", id="function"),
        pytest.param(["--port", "99999"], "--port is '99999': it must be", id="port"),
    ],
)
def test_a_wrong_configuration_is_one_sentence(afterword: Afterword, options: list[str], message: str) -> None:
    result = afterword("serve", *options)
    assert result.stderr.startswith(f"Error: {message}")
    assert result.stderr.count("\n") == 1
    assert result.exit_code == 2


def test_a_port_that_is_taken_is_named_before_a_model_is_loaded(afterword: Afterword, tmp_path: Path) -> None:
    (tmp_path / "broken.gguf").touch()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        result = afterword("serve", "--model", "broken.gguf", "--port", str(port))
    assert result.stderr.startswith(f"Error: Cannot listen on port {port} of 127.0.0.1: Address already in use.")
    assert result.exit_code == 2


@pytest.mark.skipif(importlib.util.find_spec("ray") is not None, reason="Ray is installed")
def test_a_cluster_without_ray_is_refused_with_what_to_install(tmp_path: Path) -> None:
    done = subprocess.run(
        [*COMMAND, "--cluster", "local"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(SOURCES)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert "pip install 'afterword[ray]', on every node" in done.stderr


def test_http_24_few_files_are_no_reason_to_turn_newcomers_away(tmp_path: Path) -> None:
    """More connections than the process may have files: they send half a head, or nothing."""
    limited = "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (96, 96)); " + COMMAND[2]
    with (
        serving(tmp_path, command=[sys.executable, "-c", limited, *COMMAND[3:]]) as (process, line),
        ExitStack() as held,
    ):
        url = httpx.URL(address(line))
        for number in range(110):
            connection = held.enter_context(socket.create_connection((url.host, url.port), timeout=60))
            with suppress(OSError):
                connection.sendall(b"POST /v1/completions HTTP/1.1\r\n" if number % 2 else b"")
        for _ in range(3):
            assert httpx.post(f"{url}/completions", json={"prompt": "a", "max_tokens": 1}).status_code == 200
        process.terminate()
        _, err = process.communicate(timeout=60)
    assert "connections closed" in err
    assert "idle for longest" in err
