"""Keys, origins, methods and paths, as clients get them wrong."""

from collections.abc import Iterator

import httpx
import pytest
from tests.api.served import app_of
from tests.cases.wellformed import body_of, check_error, stream_of
from tests.live import run_server

KEY = "s3cr3t-k\u00e9y"
BODY = {"prompt": "A", "max_tokens": 1, "temperature": 0}
PAGE = "https://page.example"


@pytest.fixture(scope="module")
def http() -> Iterator[httpx.Client]:
    app = app_of(api_key=KEY, cors_origins=(PAGE,), max_body_bytes=1000)
    with run_server(app) as url, httpx.Client(base_url=url) as client:
        yield client


def post(http: httpx.Client, *headers: tuple[str, str | bytes], path: str = "/v1/completions") -> httpx.Response:
    raw = [(name.encode(), value if isinstance(value, bytes) else value.encode()) for name, value in headers]
    return http.post(path, json=BODY, headers=raw)


GOOD = ("Authorization", f"Bearer {KEY}")


@pytest.mark.parametrize(
    "headers",
    [
        pytest.param([("Authorization", f"bearer {KEY}")], id="lower case"),
        pytest.param([("Authorization", f"Bearer  {KEY}")], id="two spaces"),
        pytest.param([("api-key", KEY)], id="api-key"),
        pytest.param([("Authorization", "Bearer unused"), ("api-key", KEY)], id="a stand-in beside the key"),
    ],
)
def test_http_02_a_good_key(http: httpx.Client, headers: list[tuple[str, str]]) -> None:
    assert body_of(post(http, *headers))


@pytest.mark.parametrize(
    "headers",
    [
        pytest.param([], id="none"),
        pytest.param([("Authorization", "Bearer wrong")], id="wrong"),
        pytest.param([("Authorization", "Bearer")], id="only the scheme"),
        pytest.param([("Authorization", "Basic eDp5")], id="basic"),
        pytest.param([("Authorization", b"Bearer \xc3\xa9")], id="not ASCII"),
        pytest.param([("Authorization", b"Bearer \xff\xfe")], id="not UTF-8"),
        pytest.param([("Authorization", f"Bearer {KEY}x")], id="longer"),
        pytest.param([("Authorization", f"Bearer {KEY[:-1]}")], id="shorter"),
        pytest.param([("Authorization", f"Bearer {KEY} {KEY}")], id="twice in one"),
        pytest.param([GOOD, ("Authorization", "Bearer wrong")], id="two headers"),
        pytest.param([("Authorization", "Bearer wrong"), GOOD], id="two headers, the good one last"),
        pytest.param([("Authorization", "Bearer " + "x" * 20_000)], id="long"),
        pytest.param([("Cookie", f"Authorization={KEY}")], id="elsewhere"),
    ],
)
def test_http_02_no_good_key(http: httpx.Client, headers: list[tuple[str, str | bytes]]) -> None:
    response = post(http, *headers)
    assert check_error(response, 401)["code"] == "invalid_api_key"
    assert response.headers["www-authenticate"] == "Bearer"
    assert KEY not in response.text


def test_http_01_a_preflight_needs_no_key(http: httpx.Client) -> None:
    asked = {
        "Origin": PAGE,
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "authorization,content-type",
    }
    response = http.options("/v1/completions", headers=asked)
    assert response.status_code == 200
    assert response.headers["access-control-allow-origin"] == PAGE
    allowed = {name.strip().lower() for name in response.headers["access-control-allow-headers"].split(",")}
    assert {"authorization", "content-type"} <= allowed or "*" in allowed


@pytest.mark.parametrize(
    ("headers", "content", "path", "status"),
    [
        pytest.param([], b"{}", "/v1/completions", 401, id="no key"),
        pytest.param([GOOD], b"[]", "/v1/completions", 400, id="bad request"),
        pytest.param([GOOD], b"{}", "/v1/nope", 404, id="no route"),
        pytest.param([GOOD], b'{"model":"none"}', "/v1/completions", 404, id="no model"),
        pytest.param([GOOD], b" " * 2000, "/v1/completions", 413, id="too large"),
    ],
)
def test_http_01_errors_can_be_read_by_the_page(
    http: httpx.Client, headers: list[tuple[str, str]], content: bytes, path: str, status: int
) -> None:
    raw = [(name.encode(), value.encode()) for name, value in [*headers, ("Origin", PAGE)]]
    response = http.post(path, content=content, headers=raw)
    check_error(response, status)
    assert response.headers["access-control-allow-origin"] == PAGE


def test_http_01_so_can_streams(http: httpx.Client) -> None:
    headers = [(b"authorization", f"Bearer {KEY}".encode()), (b"origin", PAGE.encode())]
    response = http.post("/v1/completions", json=BODY | {"stream": True}, headers=headers)
    assert stream_of(response)
    assert response.headers["access-control-allow-origin"] == PAGE


def test_http_01_other_pages_are_not_let_in(http: httpx.Client) -> None:
    response = post(http, GOOD, ("Origin", "https://other.example"))
    assert body_of(response)
    assert "access-control-allow-origin" not in response.headers


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        pytest.param("POST", "/v1/completions/", 200, id="slash at the end"),
        pytest.param("POST", "/v1/completions?api-version=2024-02-01", 200, id="query"),
        pytest.param("POST", "//v1/completions", 404, id="two slashes"),
        pytest.param("POST", "/completions", 404, id="no version"),
        pytest.param("POST", "/v1/nope", 404, id="no route"),
        pytest.param("POST", "/v1/%63ompletions", 200, id="escaped letter"),
        pytest.param("GET", "/v1/completions", 405, id="GET"),
        pytest.param("PUT", "/v1/completions", 405, id="PUT"),
        pytest.param("DELETE", "/v1/completions/", 405, id="DELETE with a slash"),
    ],
)
def test_http_04_paths_and_methods(http: httpx.Client, method: str, path: str, status: int) -> None:
    headers = [(b"authorization", f"Bearer {KEY}".encode())]
    response = http.request(method, path, json=BODY, headers=headers)
    if status == 200:
        body_of(response)
        return
    error = check_error(response, status)
    if status == 405:
        assert error["code"] == "method_not_supported"
        assert response.headers["allow"] == "POST"


def test_http_04_head_has_no_body(http: httpx.Client) -> None:
    response = http.head("/v1/completions", headers=[(b"authorization", f"Bearer {KEY}".encode())])
    assert (response.status_code, response.content) == (405, b"")
