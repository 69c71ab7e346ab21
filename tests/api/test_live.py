"""Over a real port: what arrives when, and what is left behind when the client leaves."""

import socket
import urllib.parse
from collections.abc import Iterator

import httpx
import pytest
from structlog.testing import capture_logs
from tests.api.folding import events_of
from tests.api.served import app_of, assert_error, is_idle, wait_until
from tests.live import run_server

from afterword.engine.echo import EchoEngine

FOREVER = {"prompt": "hello ", "max_tokens": 8000, "temperature": 0}


@pytest.fixture
def engine() -> EchoEngine:
    """So slow that no answer of `FOREVER` ends within a test."""
    return EchoEngine(token_delay=0.02)


@pytest.fixture
def url(engine: EchoEngine) -> Iterator[str]:
    with run_server(app_of(engine, max_body_bytes=1_000_000)) as running:
        yield running


def test_chunks_arrive_before_the_end(url: str, engine: EchoEngine) -> None:
    with httpx.stream("POST", f"{url}/v1/completions", json=FOREVER | {"stream": True}) as response:
        assert response.status_code == 200
        assert response.headers["content-type"] == "text/event-stream"
        lines = response.iter_lines()
        assert next(lines).startswith("data: {")
        assert engine.stats().running == 1


def test_leaving_within_a_stream_frees_the_engine(url: str, engine: EchoEngine) -> None:
    with httpx.stream("POST", f"{url}/v1/completions", json=FOREVER | {"stream": True, "n": 3}) as response:
        next(response.iter_bytes())
    wait_until(url, lambda: is_idle(engine))
    assert engine.stats().cancelled == 3


def ask_and_leave(url: str, engine: EchoEngine, stream: str) -> None:
    """Send a request for two candidates and close the connection once they run; return when the engine is idle."""
    address = urllib.parse.urlsplit(url)
    body = b'{"prompt":"hello","max_tokens":8000,"temperature":0,"best_of":2,"n":2,"stream":%b}' % stream.encode()
    head = b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(body)
    with socket.create_connection((address.hostname, address.port)) as connection:
        connection.sendall(head + body)
        wait_until(url, lambda: not is_idle(engine))
    wait_until(url, lambda: is_idle(engine))


@pytest.mark.parametrize("stream", ["true", "false"])
def test_leaving_before_an_answer_frees_the_engine(url: str, engine: EchoEngine, stream: str) -> None:
    ask_and_leave(url, engine, stream)
    assert engine.stats().cancelled == 2


def test_leaving_before_a_plain_answer_is_logged_as_such(engine: EchoEngine) -> None:
    with capture_logs() as logs:
        with run_server(app_of(engine)) as url:
            ask_and_leave(url, engine, "false")
        [line] = logs
    assert (line["status"], line["client_left"], line["stream"]) == (499, True, False)


def test_the_next_request_is_served_after_one_that_left(url: str) -> None:
    with httpx.stream("POST", f"{url}/v1/completions", json=FOREVER | {"stream": True}) as response:
        next(response.iter_bytes())
    answer = httpx.post(f"{url}/v1/completions", json=FOREVER | {"max_tokens": 5})
    assert answer.json()["choices"][0]["text"] == "hello"


def test_a_client_that_left_is_in_the_log_with_what_it_used(engine: EchoEngine) -> None:
    app = app_of(engine)
    with capture_logs() as logs:
        with run_server(app) as url:
            with httpx.stream("POST", f"{url}/v1/completions", json=FOREVER | {"stream": True}) as response:
                next(response.iter_bytes())
            wait_until(url, lambda: is_idle(engine))
        [line] = [line for line in logs if line["event"] == "request"]
    assert line["client_left"] is True
    assert line["status"] == 200
    assert line["finish_reasons"] == []
    assert line["prompt_tokens"] == 6
    assert 1 <= line["completion_tokens"] < 8000


def test_a_stream_ends_with_done_on_its_own_line(url: str) -> None:
    response = httpx.post(f"{url}/v1/completions", json=FOREVER | {"max_tokens": 2, "stream": True})
    assert response.headers["cache-control"] == "no-cache"
    assert response.headers["x-accel-buffering"] == "no"
    assert "content-length" not in response.headers
    assert response.text.endswith("\n\ndata: [DONE]\n\n")
    assert len(events_of(response.text)) == 3


@pytest.mark.parametrize("announced", [True, False], ids=["content-length", "chunked"])
def test_the_client_gets_to_see_a_413(url: str, announced: bool) -> None:
    body = b" " * 20_000_000
    content = body if announced else iter([body[start : start + 100_000] for start in range(0, len(body), 100_000)])
    assert_error(httpx.post(f"{url}/v1/completions", content=content), 413, None, None)


def test_a_full_server_says_so_with_a_status_and_recovers() -> None:
    engine = EchoEngine(n_slots=1, max_waiting=0, token_delay=0.02)
    with run_server(app_of(engine)) as url:
        with httpx.stream("POST", f"{url}/v1/completions", json=FOREVER | {"stream": True}) as response:
            assert response.status_code == 200
            refused = httpx.post(f"{url}/v1/completions", json=FOREVER | {"stream": True})
        assert_error(refused, 503, None, "overloaded")
        assert refused.headers["retry-after"] == "1"
        wait_until(url, lambda: is_idle(engine))
        served = httpx.post(f"{url}/v1/completions", json=FOREVER | {"max_tokens": 2})
    assert served.json()["choices"][0]["text"] == "he"
