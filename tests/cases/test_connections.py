"""What clients, proxies and people with a socket do to connections: real sockets, no model."""

import json
import shutil
import subprocess
import time
from collections.abc import Iterator

import pytest
from tests.api.served import app_of
from tests.cases.raw import BODY, LENGTH, POST, answer_on, connected, talk
from tests.live import run_server

from afterword.api.listening import uvicorn_config
from afterword.config.tree import ServerConfig


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with run_server(app_of()) as running:
        yield running


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
            connection.sendall(piece)
        for _ in range(b"".join(pieces).count(POST)):
            answer = answer_on(connection)
            assert (answer.status, answer.text) == (200, "A")
            assert "upgrade" not in answer.headers
        # And the connection goes on in the protocol that it began with.
        connection.sendall(POST + LENGTH + BODY)
        assert answer_on(connection).text == "A"


def test_http_21_an_offer_beside_the_wish_to_close_keeps_the_wish(url: str) -> None:
    offer = b"Connection: close, Upgrade\r\nUpgrade: h2c\r\n"
    assert talk(url, POST + offer + LENGTH + BODY).startswith(b"HTTP/1.1 200 ")


def test_http_21_the_client_may_wait_for_leave_to_send_its_body(url: str) -> None:
    with connected(url) as connection:
        connection.sendall(POST + OFFER + b"Expect: 100-continue\r\n" + LENGTH)
        assert connection.recv(65536) == b"HTTP/1.1 100 Continue\r\n\r\n"
        connection.sendall(BODY)
        assert answer_on(connection).text == "A"


def test_http_21_an_offer_on_a_route_without_a_body_is_answered(url: str) -> None:
    with connected(url) as connection:
        connection.sendall(b"GET /health HTTP/1.1\r\nHost: test\r\n" + OFFER + b"\r\n")
        assert answer_on(connection).status == 200


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
@pytest.mark.parametrize("stream", [False, True])
def test_http_21_curl_with_http2_gets_an_answer(url: str, stream: bool) -> None:
    body = json.dumps({**json.loads(BODY), "stream": stream})
    command = ["curl", "--silent", "--http2", f"{url}/v1/completions", "-d", body]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert '"text":"A"' in done.stdout
    assert done.stdout.endswith("data: [DONE]\n\n") is stream


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
    config = uvicorn_config(app_of(), ServerConfig())
    assert config.timeout_keep_alive > USUAL_FOR_PROXIES


def test_http_25_and_for_as_long_as_it_is_told() -> None:
    with run_server(app_of(), keep_alive=1) as url, connected(url) as connection:
        for _ in range(2):
            connection.sendall(POST + LENGTH + BODY)
            assert answer_on(connection).text == "A"
            # Longer than between requests on one connection; what is waited for below is more.
            time.sleep(0.5)
        assert connection.recv(1) == b""
