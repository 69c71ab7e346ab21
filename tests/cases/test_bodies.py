"""Bodies byte for byte, and connections that do not keep to HTTP: real sockets, no model."""

import gzip
import zlib
from collections.abc import Iterator

import httpx
import pytest
from tests.api.served import app_of
from tests.cases.raw import BODY, POST, talk
from tests.cases.wellformed import body_of, check_error
from tests.live import run_server

from afterword.api import intake

LIMIT = 1_000_000
GOOD = BODY


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with pytest.MonkeyPatch.context() as patch, run_server(app_of(max_body_bytes=LIMIT)) as running:
        patch.setattr(intake, "IDLE_SECONDS", 0.2)
        yield running


@pytest.fixture(scope="module")
def http(url: str) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=url) as client:
        yield client


def post(http: httpx.Client, raw: bytes, **headers: str) -> httpx.Response:
    return http.post("/v1/completions", content=raw, headers=headers)


@pytest.mark.parametrize(
    "raw",
    [
        pytest.param(rb'{"prompt":"emoji \ud83d","max_tokens":1,"echo":true}', id="high half"),
        pytest.param(rb'{"prompt":"x \ude00 y","max_tokens":1}', id="low half"),
        pytest.param(rb'{"prompt":"\ude00\ud83d","max_tokens":1}', id="halves in the wrong order"),
        pytest.param(rb'{"prompt":["a","\ud83d"],"max_tokens":1}', id="in a batch"),
        pytest.param(rb'{"prompt":"A","stop":"\ud83d","max_tokens":1}', id="stop"),
        pytest.param(rb'{"prompt":"A","user":"\udcf0","max_tokens":1}', id="user"),
        pytest.param(rb'{"prompt":"A","model":"m\ud83d"}', id="model"),
        pytest.param(rb'{"prompt":"A","suffix":"\ud83d"}', id="suffix"),
        pytest.param(rb'{"prompt":"A","\ud83d":1}', id="name of a field"),
        pytest.param(rb'{"prompt":"A","logit_bias":{"\ud83d":1}}', id="key of a bias"),
        pytest.param(rb'{"prompt":"\ud83d","seed":12345678901234567890123}', id="beside a long number"),
    ],
)
def test_body_01_half_a_surrogate_pair_is_refused_in_words_that_can_be_sent(http: httpx.Client, raw: bytes) -> None:
    check_error(post(http, raw), 400)
    assert body_of(post(http, rb'{"prompt":"ok \ud83d\ude42","max_tokens":1}'))


@pytest.mark.parametrize(
    "raw",
    [
        pytest.param(b'{"prompt":"\xc4\xe3\xba\xc3"}', id="GBK"),
        pytest.param(b'{"prompt":"\xed\xa0\xbd"}', id="a surrogate in bytes"),
        pytest.param(b'{"prompt":"\xc0\x80"}', id="an overlong zero"),
        pytest.param(b'{"prompt":"\xf4\x90\x80\x80"}', id="beyond Unicode"),
        pytest.param(b"\xef\xbb\xbf" + GOOD, id="byte order mark"),
        pytest.param(GOOD.decode().encode("utf-16-le"), id="UTF-16"),
        pytest.param(GOOD.decode().encode("utf-32"), id="UTF-32"),
        pytest.param(b"", id="empty"),
        pytest.param(b"[]", id="array"),
        pytest.param(b'"x"', id="string"),
        pytest.param(b"null", id="null"),
        pytest.param(b'{"prompt":"A"', id="cut"),
        pytest.param(GOOD + b" trailing", id="trailing"),
        pytest.param(GOOD + GOOD, id="two objects"),
        pytest.param(b"{'prompt':'A'}", id="single quotes"),
        pytest.param(b'{"prompt":"A",}', id="comma at the end"),
        pytest.param(b'{"prompt":"A\nB"}', id="a bare line end in a string"),
        pytest.param(b'{"prompt":"A","max_tokens":1,"temperature":NaN}', id="NaN"),
        pytest.param(b'{"prompt":"A","max_tokens":1,"top_p":Infinity}', id="Infinity"),
        pytest.param(b'{"prompt":"A","max_tokens":1,"temperature":1e999}', id="1e999"),
        pytest.param(b'{"prompt":"A","max_tokens":1,"logit_bias":{"260":-1e999}}', id="-1e999"),
        pytest.param(b'{"prompt":' + b"[" * 50_000, id="deep"),
    ],
)
def test_body_02_what_is_no_json_object_is_refused_and_the_connection_goes_on(http: httpx.Client, raw: bytes) -> None:
    check_error(post(http, raw), 400)
    assert body_of(post(http, GOOD))["choices"][0]["text"] == "A"


@pytest.mark.parametrize(
    ("headers", "raw", "status"),
    [
        pytest.param({"content-encoding": "gzip"}, gzip.compress(GOOD), 200, id="gzip"),
        pytest.param({"content-encoding": "GZip"}, gzip.compress(GOOD), 200, id="gzip in any case"),
        pytest.param({"content-encoding": "identity"}, GOOD, 200, id="identity"),
        pytest.param({"content-encoding": "gzip"}, gzip.compress(b" " * 50_000_000), 413, id="a bomb"),
        pytest.param({"content-encoding": "gzip"}, GOOD, 400, id="plain, called gzip"),
        pytest.param({"content-encoding": "gzip"}, gzip.compress(GOOD)[:-9], 400, id="gzip that is cut"),
        pytest.param({"content-encoding": "gzip"}, gzip.compress(GOOD) + b"x", 400, id="gzip and more"),
        pytest.param({}, gzip.compress(GOOD), 400, id="gzip, called nothing"),
        pytest.param({"content-encoding": "br"}, GOOD, 415, id="br"),
        pytest.param({"content-encoding": "deflate"}, zlib.compress(GOOD), 415, id="deflate"),
        pytest.param({"content-encoding": "gzip, gzip"}, gzip.compress(gzip.compress(GOOD)), 415, id="twice"),
        pytest.param({"content-type": "application/json; charset=utf-8"}, GOOD, 200, id="charset"),
        pytest.param({"content-type": "text/plain"}, GOOD, 200, id="text"),
        pytest.param({}, GOOD, 200, id="no type"),
    ],
)
def test_body_05_encodings(http: httpx.Client, headers: dict[str, str], raw: bytes, status: int) -> None:
    response = post(http, raw, **headers)
    if status == 200:
        assert body_of(response)["choices"][0]["text"] == "A"
    else:
        check_error(response, status)


CHUNK = b"10000\r\n" + b" " * 65536 + b"\r\n"


@pytest.mark.parametrize(
    ("pieces", "status"),
    [
        pytest.param([POST + b"Content-Length: 3000000\r\n\r\n", b" " * 3_000_000], 413, id="too large"),
        pytest.param([POST + b"Transfer-Encoding: chunked\r\n\r\n", CHUNK * 40, b"0\r\n\r\n"], 413, id="chunked"),
        pytest.param([POST + b"Content-Length: 3000000\r\n\r\n", b" " * 2_000_000], 408, id="too large, then idle"),
        pytest.param([POST + b"Content-Length: abc\r\n\r\n"], 400, id="no length"),
        pytest.param([POST + b"Content-Length: -1\r\n\r\n"], 400, id="negative length"),
        pytest.param([POST + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}"], 400, id="two lengths"),
        pytest.param(
            [POST + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"], 400, id="length and chunks"
        ),
        pytest.param([POST + b"Content-Length: 500\r\n\r\n{"], 408, id="idle within the body"),
        pytest.param([POST + b"Content-Length: 500\r\n\r\n"], 408, id="idle before the body"),
        pytest.param([POST + b"Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n"], 408, id="idle between chunks"),
        pytest.param([POST + b"X-Long: " + b"a" * 1_000_000], 431, id="a header that does not end"),
        pytest.param([POST, b"X-Short: a\r\n" * 80_000], 431, id="headers that do not end"),
        pytest.param([b"POST /" + b"a" * 1_000_000], 431, id="a path that does not end"),
        pytest.param([b"hello\r\n\r\n"], 400, id="no HTTP"),
    ],
)
def test_body_04_the_client_gets_to_read_why_its_connection_is_closed(
    url: str, pieces: list[bytes], status: int
) -> None:
    head, _, content = talk(url, *pieces).partition(b"\r\n\r\n")
    first, *lines = head.decode("ascii").lower().split("\r\n")
    assert first.startswith(f"http/1.1 {status} ")
    assert {"connection: close", "content-type: application/json"} <= set(lines)
    headers = dict(line.split(": ", 1) for line in lines)
    check_error(httpx.Response(status, headers={"content-type": headers["content-type"]}, content=content), status)


def test_body_04_a_slow_body_that_keeps_coming_is_waited_for(url: str) -> None:
    """Many pieces, one at a time: each of them may take the whole of the allowed time."""
    pieces = [GOOD[i : i + 1] for i in range(len(GOOD))]
    head = POST + b"Connection: close\r\nContent-Length: %d\r\n\r\n" % len(GOOD)
    assert talk(url, head, *pieces).startswith(b"HTTP/1.1 200 ")
