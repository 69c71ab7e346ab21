"""What clients see when the process of the model that answers them ends."""

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from typing import Any

import httpx
import orjson
import pytest
from structlog.testing import capture_logs
from tests.engine.worker.opening import FAULTY, TINY
from tests.live import run_server
from tests.models.engines import kept_tiny, settings
from tests.models.tiny import write_tiny

from afterword.api.app import create_app
from afterword.config.tree import ServerConfig
from afterword.engine.worker import process
from afterword.engine.worker.worker_engine import WorkerEngine, load_engine
from afterword.registry import Registry, ServedModel

LONG = {"max_tokens": 400, "temperature": 1, "seed": 1, "ignore_eos": True}


@dataclass(frozen=True, slots=True)
class Running:
    http: httpx.Client
    engine: WorkerEngine

    def complete(self, prompt: str, **fields: Any) -> httpx.Response:
        return self.http.post("/v1/completions", json={"prompt": prompt, **LONG, **fields})

    @contextmanager
    def stream(self, prompt: str) -> Iterator[Iterator[str]]:
        body = {"prompt": prompt, **LONG, "stream": True}
        with self.http.stream("POST", "/v1/completions", json=body) as response:
            assert response.status_code == 200
            yield (line.removeprefix("data: ") for line in response.iter_lines() if line != "")

    def until(self, holds: Callable[[httpx.Response], bool]) -> httpx.Response:
        """What `/ready` says once that holds."""
        deadline = time.monotonic() + 60
        while not holds(ready := self.http.get("/ready")):
            assert time.monotonic() < deadline
        return ready


@contextmanager
def serving(path: Path) -> Iterator[Running]:
    engine = load_engine(settings(path, path.parent, parallel=1), step_seconds=300)
    app = create_app(Registry([ServedModel("tiny", engine, 0)]), ServerConfig())
    with run_server(app) as url, httpx.Client(base_url=url, timeout=60) as http:
        yield Running(http, engine)


@pytest.fixture
def running(monkeypatch: pytest.MonkeyPatch) -> Iterator[Running]:
    monkeypatch.setattr(process, "CHILD", FAULTY)
    with serving(kept_tiny(TINY)) as found:
        yield found


@pytest.mark.parametrize("fault", ["K", "S", "A", "M"])
def test_an_answer_that_is_not_begun_is_a_503_and_the_next_is_served(running: Running, fault: str) -> None:
    response = running.complete("a fault: " + fault)
    assert response.status_code == 503
    assert int(response.headers["retry-after"]) >= 1
    error = response.json()["error"]
    assert (error["type"], error["code"]) == ("server_error", "engine_lost")
    assert "send the request once more" in error["message"]
    assert running.complete("no fault").json()["usage"]["completion_tokens"] == 400


@pytest.mark.parametrize("fault", ["K", "S", "A", "M"])
def test_a_stream_ends_with_one_error_event(running: Running, fault: str) -> None:
    with running.stream("a fault: " + fault) as lines:
        *chunks, last = lines
    assert orjson.loads(last)["error"]["code"] == "engine_lost"
    assert len(chunks) >= 1
    assert all("error" not in orjson.loads(chunk) for chunk in chunks)


def test_ready_is_red_and_green_again_and_health_is_green(running: Running) -> None:
    expected = running.complete("something", max_tokens=50).json()["choices"]
    waited: list[httpx.Response] = []
    with running.stream("it hangs: H") as lines:
        next(lines)
        waiting = Thread(target=lambda: waited.append(running.complete("something", max_tokens=50)))
        waiting.start()
        while running.engine.stats().waiting == 0:
            pass
        os.kill(running.engine.pid, 9)
        assert "engine_lost" in list(lines)[-1]
    red = running.until(lambda ready: ready.status_code == 503)
    assert red.json()["models"] == {"tiny": "loading"}
    assert "signal 9" in red.json()["problems"]["tiny"]
    assert running.http.get("/health").status_code == 200
    green = running.until(lambda ready: ready.status_code == 200)
    assert green.json()["problems"] == {}
    waiting.join()
    assert waited[0].json()["choices"] == expected
    metrics = running.http.get("/metrics").text
    assert 'afterword_engine_restarts_total{model="tiny"} 1.0' in metrics
    assert 'afterword_engine_running{model="tiny"} 0.0' in metrics


def test_a_file_that_is_cut_off_while_it_is_served_ends_no_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "CHILD", FAULTY)
    path = write_tiny(tmp_path, TINY)
    kept = path.read_bytes()
    with serving(path) as running:
        expected = running.complete("something", max_tokens=20).json()["choices"]
        with capture_logs() as logs:
            with running.stream("it takes its time: W") as lines:
                next(lines)
                os.truncate(path, 0)
                assert "engine_lost" in list(lines)[-1]
            running.until(lambda ready: ready.status_code == 503)
        assert any(f"signal {int(signal.SIGBUS)} " in str(line.get("how")) for line in logs)
        red = running.until(lambda ready: "begins with" in str(ready.json()["problems"]))
        assert red.status_code == 503
        assert running.complete("x").status_code == 503
        path.write_bytes(kept)
        running.until(lambda ready: ready.status_code == 200)
        assert running.complete("something", max_tokens=20).json()["choices"] == expected
