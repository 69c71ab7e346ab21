"""How a server stops: what its clients are told, what the ledger has, and that nothing holds it up."""

import json
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.cli.test_serve import COMMAND, address
from tests.cli.test_serve import serving as serving_echo
from tests.engine.upstream.fakes import Answer, Fake, ends_when_told, fake_upstream, hangs, text_event

CONFIGURATION = """
[server]
drain_timeout = {drain}

[gateway]
database = "{database}"

[[vendors]]
name = "there"
url = "{url}/v1"
max_concurrent = 1
retries = 0
supports = {{ logprobs = false }}

[[models]]
name = "m"
vendor = "there"
"""

BODY = {"prompt": "hello", "max_tokens": 50, "logprobs": None}


class Server:
    """A server in a process of its own, in front of a vendor that answers as a test wants."""

    def __init__(self, process: "subprocess.Popen[str]", url: str, fake: Fake, database: Path) -> None:
        self.process = process
        self.url = url
        self.fake = fake
        self.database = database

    def rows(self) -> list[tuple[Any, ...]]:
        """Status, prompt and completion tokens of each request in the ledger."""
        with closing(sqlite3.connect(self.database)) as connection:
            return connection.execute("SELECT status, prompt_tokens, completion_tokens FROM usage").fetchall()

    def end(self) -> tuple[int, str]:
        """Wait for its end: its code, and its log."""
        _, log = self.process.communicate(timeout=60)
        return self.process.returncode, log


@contextmanager
def serving(folder: Path, *answers: Answer, drain: int) -> Iterator[Server]:
    database, file = folder / "a.db", folder / "afterword.toml"
    with fake_upstream(*answers) as fake:
        file.write_text(CONFIGURATION.format(drain=drain, database=database, url=fake.url))
        command = [part for part in COMMAND if part not in ("--model", "echo")]
        with serving_echo(folder, "--config", str(file), command=command) as (process, line):
            yield Server(process, address(line), fake, database)


def begun_stream(stack: ExitStack, url: str) -> Iterator[str]:
    """The lines of a stream, of which the first has come."""
    client = stack.enter_context(httpx.Client(timeout=60))
    response = stack.enter_context(client.stream("POST", f"{url}/completions", json=BODY | {"stream": True}))
    lines = (line for line in response.iter_lines() if line)
    assert '"text":"a"' in next(lines)
    return lines


def half_a_body(stack: ExitStack, url: str) -> socket.socket:
    where = httpx.URL(url)
    connection = stack.enter_context(socket.create_connection((where.host, where.port), timeout=60))
    connection.sendall(b"POST /v1/completions HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: 100\r\n\r\n{")
    return connection


def until(happened: Callable[[], bool]) -> None:
    """A wait in vain is ended by the suite's timeout."""
    while not happened():
        pass


def listens(url: str) -> bool:
    try:
        httpx.get(f"{url}/models")
    except httpx.ConnectError:
        return False
    return True


def n_waiting(url: str) -> int:
    text = httpx.get(url.removesuffix("/v1") + "/metrics").text
    return int(float(text.split('\nafterword_engine_waiting{model="m"} ')[1].split("\n")[0]))


def test_answers_that_have_had_their_time_are_ended_in_good_order(tmp_path: Path) -> None:
    fake: Fake
    with ExitStack() as stack:
        server = stack.enter_context(serving(tmp_path, hangs(lambda: fake, text_event("a")), drain=1))
        fake = server.fake
        lines = begun_stream(stack, server.url)
        pool = stack.enter_context(ThreadPoolExecutor(1))
        waiting = pool.submit(httpx.post, f"{server.url}/completions", json=BODY, timeout=60)
        until(lambda: n_waiting(server.url) == 1)
        uploading = half_a_body(stack, server.url)
        server.process.send_signal(signal.SIGTERM)
        error = json.loads(next(lines).removeprefix("data: "))["error"]
        assert list(lines) == []
        refused = waiting.result()
        head, _, body = uploading.makefile("rb").read().partition(b"\r\n\r\n")
        code, log = server.end()
    for told in (error, refused.json()["error"], json.loads(body)["error"]):
        assert (told["type"], told["code"]) == ("server_error", "stopping")
        assert told["message"] == "The server is stopping. Please try again."
    assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
    assert head.startswith(b"HTTP/1.1 503 ")
    assert (code, "Traceback" in log) == (0, False)
    assert "answers are ended: they have had their time" in log
    # The stream by what had come of it; the one that waited has used nothing.
    assert sorted(server.rows()) == [(503, 0, 0), (503, 2, 1)]


def test_answers_are_finished_within_that_time(tmp_path: Path) -> None:
    go = threading.Event()
    with ExitStack() as stack:
        server = stack.enter_context(serving(tmp_path, ends_when_told(go), drain=60))
        lines = begun_stream(stack, server.url)
        server.process.send_signal(signal.SIGTERM)
        until(lambda: not listens(server.url))
        go.set()
        assert '"text":"b"' in next(lines)
        assert list(lines)[-1] == "data: [DONE]"
        code, _ = server.end()
    assert (code, server.rows()) == (0, [(200, 5, 2)])


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=lambda number: signal.Signals(number).name)
def test_a_second_signal_ends_it_at_once(tmp_path: Path, number: int) -> None:
    fake: Fake
    with ExitStack() as stack:
        server = stack.enter_context(serving(tmp_path, hangs(lambda: fake, text_event("a")), drain=3600))
        fake = server.fake
        lines = begun_stream(stack, server.url)
        server.process.send_signal(signal.SIGTERM)
        until(lambda: not listens(server.url))
        server.process.send_signal(number)
        code, log = server.end()
        # It was read until then.
        del lines
    assert code == 128 + number
    assert "stopped at once" in log
    assert "requests=1" in log


def test_rows_that_cannot_be_written_at_the_end_are_counted(tmp_path: Path) -> None:
    """Another process keeps the database locked for good."""
    brief = (
        "from afterword.gateway import ledger; ledger.CLOSING_SECONDS = 0.3; ledger.LAST_SECONDS = 0.1; " + COMMAND[2]
    )
    command = [sys.executable, "-c", brief, *COMMAND[3:], "--database", str(tmp_path / "a.db")]
    with serving_echo(tmp_path, command=command) as (process, line):
        ask = {"prompt": "a", "max_tokens": 1}
        assert httpx.post(f"{address(line)}/completions", json=ask).status_code == 200
        with closing(sqlite3.connect(tmp_path / "a.db", isolation_level=None)) as other:
            until(lambda: other.execute("SELECT count(*) FROM usage").fetchone() == (1,))
            other.execute("BEGIN IMMEDIATE")
            for _ in range(3):
                assert httpx.post(f"{address(line)}/completions", json=ask).status_code == 200
            process.terminate()
            _, log = process.communicate(timeout=60)
    assert process.returncode == 0
    assert "usage rows were dropped" in log
    assert "rows=3" in log
