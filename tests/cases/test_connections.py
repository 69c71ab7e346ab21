"""What clients, proxies and people with a socket do to connections: real sockets, no model."""

import gzip
import json
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress

import httpx
import pytest
from structlog.testing import capture_logs
from tests.api.served import app_of, wait_until
from tests.cases.raw import BODY, LENGTH, POST, connected, talk
from tests.live import run_server

from afterword.api import intake
from afterword.api.listening import uvicorn_config
from afterword.config.tree import ServerConfig
from afterword.engine.echo import EchoEngine


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with run_server(app_of()) as running:
        yield running


def wait_for(happened: Callable[[], bool]) -> None:
    """Return once it has, without a connection of one's own. A wait in vain is ended by the suite's timeout."""
    while not happened():
        time.sleep(0.01)


OFFER = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAoAAAAAIAAAAA\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%b\r\n0\r\n\r\n" % (len(BODY), BODY)


@pytest.mark.parametrize(
    "pieces",
    [
        pytest.param([POST + OFFER + LENGTH + BODY], id="h2c"),
        pytest.param([POST + OFFER + LENGTH, BODY[:7], BODY[7:]], id="the body later"),
        pytest.param([POST, OFFER[:20], OFFER[20:] + LENGTH[:5], LENGTH[5:] + BODY], id="the head in pieces"),
        pytest.param([POST + OFFER + CHUNKED], id="chunked"),
        pytest.param([POST + b"Connection: upgrade\r\nUpgrade: websocket\r\n" + LENGTH + BODY], id="websocket"),
        pytest.param(
            [POST + b"Upgrade: TLS/1.0, h2c\r\nConnection: keep-alive, Upgrade\r\n" + LENGTH + BODY], id="two"
        ),
        pytest.param([POST + b"Connection: keep-alive\r\n" + OFFER + LENGTH + BODY], id="two headers Connection"),
        pytest.param([(POST + OFFER + LENGTH + BODY) * 3], id="several behind each other"),
    ],
)
def test_http_21_an_offer_of_another_protocol_is_ignored_and_the_body_read(url: str, pieces: list[bytes]) -> None:
    with connected(url) as connection:
        for piece in pieces:
            connection.send(piece)
        for _ in range(b"".join(pieces).count(POST)):
            answer = connection.answer()
            assert (answer.status, answer.text) == (200, "A")
            assert "upgrade" not in answer.headers
        # And the connection goes on in the protocol that it began with.
        connection.send(POST + LENGTH + BODY)
        assert connection.answer().text == "A"


def test_http_21_an_offer_beside_the_wish_to_close_keeps_the_wish(url: str) -> None:
    offer = b"Connection: close, Upgrade\r\nUpgrade: h2c\r\n"
    assert talk(url, POST + offer + LENGTH + BODY).startswith(b"HTTP/1.1 200 ")


def test_http_21_the_client_may_wait_for_leave_to_send_its_body(url: str) -> None:
    with connected(url) as connection:
        connection.send(POST + OFFER + b"Expect: 100-continue\r\n" + LENGTH)
        assert connection.line() + connection.line() == b"HTTP/1.1 100 Continue\r\n\r\n"
        connection.send(BODY)
        assert connection.answer().text == "A"


def test_http_21_an_offer_on_a_route_without_a_body_is_answered(url: str) -> None:
    with connected(url) as connection:
        connection.send(b"GET /health HTTP/1.1\r\nHost: localhost\r\n" + OFFER + b"\r\n")
        assert connection.answer().status == 200


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
@pytest.mark.parametrize("stream", [False, True])
def test_http_21_curl_with_http2_gets_an_answer(url: str, stream: bool) -> None:
    body = json.dumps({**json.loads(BODY), "stream": stream})
    command = ["curl", "--silent", "--http2", f"{url}/v1/completions", "-d", body]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert '"text":"A"' in done.stdout
    assert done.stdout.endswith("data: [DONE]\n\n") is stream


PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


@pytest.mark.parametrize("pieces", [[PREFACE], [PREFACE[:3], PREFACE[3:20], PREFACE[20:] + b"\0\0\0\4\0\0\0\0\0"]])
def test_http_21_who_begins_with_http2_is_told_in_its_frames_that_this_is_http1(url: str, pieces: list[bytes]) -> None:
    with connected(url) as connection:
        for piece in pieces:
            connection.send(piece)
        told = connection.rest()
    settings, end = told[:9], told[9:]
    assert settings == bytes((0, 0, 0, 4, 0, 0, 0, 0, 0))
    length, kind, flags, stream = end[:3], end[3], end[4], end[5:9]
    assert (int.from_bytes(length, "big"), kind, flags, stream) == (len(end) - 9, 7, 0, bytes(4))
    last_stream, code, text = end[9:13], end[13:17], end[17:]
    assert (int.from_bytes(last_stream, "big"), int.from_bytes(code, "big")) == (0, 0xD)
    assert text == b"This server speaks HTTP/1.1, not HTTP/2."


OLD = POST.replace(b"HTTP/1.1", b"HTTP/1.0")
STREAM = b'{"prompt":"ab","max_tokens":4,"temperature":0,"stream":true}'


@pytest.mark.parametrize("more", [b"", b"Connection: keep-alive\r\n", b"Connection: upgrade\r\nUpgrade: h2c\r\n"])
def test_http_26_a_stream_ends_with_the_connection(url: str, more: bytes) -> None:
    head, _, content = talk(url, OLD + more + b"Content-Length: %d\r\n\r\n" % len(STREAM), STREAM).partition(
        b"\r\n\r\n"
    )
    lines = head.lower().split(b"\r\n")
    assert lines[0] == b"http/1.1 200 ok"
    assert b"connection: close" in lines
    assert b"transfer-encoding" not in head.lower()
    events = content.split(b"\n\n")
    assert events[-2:] == [b"data: [DONE]", b""]
    assert all(event.startswith(b"data: ") for event in events[:-1])
    texts = [json.loads(event[6:])["choices"][0]["text"] for event in events[:-2]]
    assert "".join(texts) == "abab"


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        pytest.param(OLD + LENGTH + BODY, 200, id="plain"),
        pytest.param(OLD + b"Expect: 100-continue\r\n" + LENGTH + BODY, 200, id="expectation"),
        pytest.param(OLD + b"Content-Length: 2\r\n\r\n[]", 400, id="error"),
        pytest.param(b"GET /metrics HTTP/1.0\r\n\r\n", 200, id="page"),
        pytest.param(b"GET /nothing HTTP/1.0\r\n\r\n", 404, id="no route"),
        pytest.param(b"HEAD /health HTTP/1.0\r\n\r\n", 200, id="head"),
    ],
)
def test_http_26_every_answer_has_its_length(url: str, request_: bytes, status: int) -> None:
    head, _, content = talk(url, request_).partition(b"\r\n\r\n")
    first, *lines = head.decode("ascii").lower().split("\r\n")
    assert first.startswith(f"http/1.1 {status} ")
    headers = dict(line.split(": ", 1) for line in lines)
    assert "transfer-encoding" not in headers
    assert len(content) == (0 if request_.startswith(b"HEAD") else int(headers["content-length"]))


USUAL_FOR_PROXIES = 60


def test_http_25_a_connection_is_kept_for_longer_than_proxies_keep_theirs() -> None:
    config = uvicorn_config(app_of(), ServerConfig(), n_descriptors=1000)
    assert config.timeout_keep_alive > USUAL_FOR_PROXIES


def test_http_25_and_for_as_long_as_it_is_told() -> None:
    with run_server(app_of(), keep_alive=1) as url, connected(url) as connection:
        for _ in range(2):
            connection.send(POST + LENGTH + BODY)
            assert connection.answer().text == "A"
            # Longer than between requests on one connection; what is waited for below is more.
            time.sleep(0.5)
        assert connection.line() == b""


HALF = POST + b"X-Slow: "


@pytest.mark.parametrize("sent", [b"", b"\r\n", b"POST", HALF], ids=["nothing", "a line end", "a word", "half a head"])
def test_http_24_who_brings_no_head_is_closed(sent: bytes) -> None:
    with run_server(app_of(), head_timeout=1) as url, capture_logs() as logs:
        answer = talk(url, sent)
    if sent in (HALF, b"POST"):
        assert answer.startswith(b"HTTP/1.1 408 ")
        assert b"did not come within 1 seconds" in answer
    else:
        assert answer == b""
    assert [line["why"] for line in logs if line["event"] == "connections closed"] == [{"no request within 1 s": 1}]


def test_http_24_so_is_who_brings_half_of_a_second_head() -> None:
    with run_server(app_of(), head_timeout=1) as url:
        assert talk(url, POST + LENGTH + BODY + HALF).count(b"HTTP/1.1 ") == 2


def test_http_24_half_a_head_behind_a_request_does_not_end_its_answer() -> None:
    engine = EchoEngine(token_delay=0.15)
    with run_server(app_of(engine), head_timeout=1) as url:
        stream = STREAM.replace(b'"max_tokens":4', b'"max_tokens":12')
        answer = talk(url, POST + b"Content-Length: %d\r\n\r\n" % len(stream) + stream + HALF)
    assert answer.count(b"[DONE]") == 1
    assert answer.index(b"[DONE]") < answer.index(b"HTTP/1.1 408 ")


def test_http_24_a_body_that_trickles_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intake, "IDLE_SECONDS", 0.5)
    with run_server(app_of()) as url, connected(url) as connection:
        connection.send(POST + b"Content-Length: 100000\r\n\r\n")
        for _ in range(10):
            connection.send(b" " * 20)
            time.sleep(0.1)
        answer = connection.answer()
    assert answer.status == 408
    assert "more slowly than 500 bytes a second" in json.loads(answer.content)["error"]["message"]


def test_http_24_who_reads_nothing_of_a_long_answer_is_let_go() -> None:
    engine = EchoEngine()
    body = b'{"prompt":"%b","max_tokens":0,"echo":true,"logprobs":100}' % (b"A" * 8000)
    with run_server(app_of(engine), stall_timeout=1) as url, connected(url) as connection, capture_logs() as logs:
        connection.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.send(POST + b"Content-Length: %d\r\n\r\n" % len(body) + body)
        wait_until(url, lambda: any(line["event"] == "connections closed" for line in logs))
    assert [line["why"] for line in logs if line["event"] == "connections closed"] == [
        {"nothing of an answer read for 1 s": 1}
    ]


@pytest.mark.parametrize("sent", [b"", HALF], ids=["nothing", "half a head"])
def test_http_24_a_newcomer_is_served_when_all_connections_are_idle(sent: bytes) -> None:
    with run_server(app_of(), max_connections=20) as url, ExitStack() as stack, capture_logs() as logs:
        held = [stack.enter_context(connected(url)) for _ in range(60)]
        for connection in held:
            with suppress(OSError):
                connection.send(sent)
        assert httpx.get(f"{url}/health").status_code == 200
        # Those that came last are kept.
        held[-1].send(b"a\r\n" + LENGTH + BODY if sent else POST + LENGTH + BODY)
        assert held[-1].answer().text == "A"
    assert [line for line in logs if line["event"] == "connections closed"] != []


def test_http_24_a_request_under_way_is_never_closed_for_a_newcomer() -> None:
    engine = EchoEngine(token_delay=0.05)
    body = STREAM.replace(b'"max_tokens":4', b'"max_tokens":30')
    with run_server(app_of(engine), max_connections=2) as url, connected(url) as first, connected(url) as second:
        for connection in (first, second):
            connection.send(POST + b"Content-Length: %d\r\n\r\n" % len(body) + body)
        wait_for(lambda: engine.stats().running == 2)
        with connected(url) as newcomer:
            answer = newcomer.answer()
            assert answer.status == 503
            assert "as many connections as it takes" in json.loads(answer.content)["error"]["message"]
        for connection in (first, second):
            assert b"[DONE]" in connection.answer().content
        assert httpx.get(f"{url}/health").status_code == 200


def test_http_28_small_gzip_bodies_that_do_not_end_take_no_memory_and_keep_nobody_out() -> None:
    app = app_of()
    bomb = gzip.compress(b'{"prompt":"' + b" " * 30_000_000)
    head = POST + b"Content-Encoding: gzip\r\nContent-Length: 100000\r\n\r\n"
    with run_server(app) as url, ExitStack() as stack:
        for _ in range(20):
            stack.enter_context(connected(url)).send(head + bomb)
        with connected(url) as other:
            other.send(POST + LENGTH + BODY)
            assert other.answer().text == "A"
        assert app.state.serving.intake.n_held < 20 * len(bomb)
