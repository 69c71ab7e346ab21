"""Web pages: which may use a server that asks for no key, and how the log says what would admit the others."""

from collections.abc import Mapping, Sequence
from typing import Any

import httpx
import pytest
from structlog.testing import capture_logs
from tests.api.served import app_of, assert_error, client_of

from afterword.api.visitors import MOST_TOLD

BODY = {"prompt": "hi", "max_tokens": 2, "temperature": 0}
ELSEWHERE = "https://page.example"
PREFLIGHT = {"access-control-request-method": "POST", "access-control-request-headers": "content-type"}


def turned_away(logs: Sequence[Mapping[str, object]]) -> list[tuple[object, object]]:
    return [(line["who"], line["admitted_by"]) for line in logs if line["event"] == "page turned away"]


async def ask(headers: dict[str, str], *, key: str | None = None, **settings: Any) -> httpx.Response:
    """A completion, sent with these headers to a server with these settings."""
    async with client_of(app_of(api_key=key, **settings), **headers) as client:
        return await client.post("/v1/completions", json=BODY)


@pytest.mark.parametrize(
    "headers",
    [
        pytest.param({}, id="no page"),
        pytest.param({"origin": "http://localhost"}, id="the server's own page"),
        pytest.param({"origin": "http://LOCALHOST:8000", "host": "localhost:8000"}, id="with a port"),
        pytest.param({"origin": "http://[::1]:8000", "host": "[::1]:8000"}, id="IPv6"),
        pytest.param(
            {"origin": "https://llm.example", "host": "127.0.0.1:8000", "sec-fetch-site": "same-origin"},
            id="its own behind a proxy",
        ),
    ],
)
async def test_an_open_server_serves_programs_and_its_own_page(headers: dict[str, str]) -> None:
    response = await ask(headers)
    assert response.status_code == 200
    assert "access-control-allow-origin" not in response.headers


@pytest.mark.parametrize(
    "headers",
    [
        pytest.param({"origin": ELSEWHERE}, id="another site"),
        pytest.param({"origin": "null"}, id="a file or a frame without rights"),
        pytest.param({"origin": "http://localhost:9000", "host": "localhost:8000"}, id="another port"),
        pytest.param({"origin": "http://localhost.page.example"}, id="a name that begins alike"),
        pytest.param({"origin": ELSEWHERE, "sec-fetch-site": "cross-site"}, id="as the browser says"),
        pytest.param({"origin": ELSEWHERE, "content-type": "text/plain"}, id="without a preflight"),
        pytest.param({"origin": ""}, id="an empty one"),
    ],
)
async def test_a_page_from_elsewhere_may_not_use_an_open_server(headers: dict[str, str]) -> None:
    with capture_logs() as logs:
        response = await ask(headers)
    error = assert_error(response, 403, None, None)
    assert "cors_origins" in error["message"]
    assert "access-control-allow-origin" not in response.headers
    assert turned_away(logs) == [(headers["origin"], f'cors_origins = ["{headers["origin"]}"]')]


@pytest.mark.parametrize("key", [None, "k-1"])
async def test_a_preflight_from_elsewhere_is_refused_with_one_line_that_names_the_setting(key: str | None) -> None:
    with capture_logs() as logs:
        async with client_of(app_of(api_key=key), origin=ELSEWHERE) as client:
            for path in ("/v1/completions", "/v1/models"):
                response = await client.options(path, headers=PREFLIGHT)
                assert_error(response, 403, None, None)
                assert "access-control-allow-origin" not in response.headers
    assert turned_away(logs) == [(ELSEWHERE, f'cors_origins = ["{ELSEWHERE}"]')]


@pytest.mark.parametrize(
    ("origin", "named"), [(ELSEWHERE, ELSEWHERE), ("null", "null"), (ELSEWHERE, "*"), ("moz-extension://a-b", "*")]
)
async def test_what_the_line_names_admits_the_page(origin: str, named: str) -> None:
    with capture_logs() as logs:
        async with client_of(app_of(cors_origins=(named,)), origin=origin) as client:
            allowed = await client.options("/v1/completions", headers=PREFLIGHT)
            answer = await client.post("/v1/completions", json=BODY)
    assert (allowed.status_code, answer.status_code) == (200, 200)
    for response in (allowed, answer):
        assert response.headers["access-control-allow-origin"] in (origin, "*")
    assert turned_away(logs) == []


async def test_with_a_key_only_the_browser_keeps_a_page_from_reading() -> None:
    with capture_logs() as logs:
        response = await ask({"origin": ELSEWHERE, "host": "llm.example", "api-key": "k-1"}, key="k-1")
    assert response.status_code == 200
    assert "access-control-allow-origin" not in response.headers
    assert turned_away(logs) == []


@pytest.mark.parametrize(
    "host",
    [
        *["localhost", "LOCALHOST:8000", "localhost.", "127.0.0.1:8000", "127.1.2.3", "[::1]", "[::1]:8000"],
        *["app.localhost:8000", "host.docker.internal:8000", "host.containers.internal", "192.168.1.5:8000", ""],
    ],
)
async def test_an_open_server_answers_under_names_that_nobody_else_can_have(host: str) -> None:
    assert (await ask({"host": host})).status_code == 200


@pytest.mark.parametrize(
    "host",
    [
        *["page.example", "page.example:8000", "localhost.page.example", "127.0.0.1.page.example", "notlocalhost"],
        *["page.example:", "[::1", "127.0.0.1@page.example", "2130706433.page.example"],
    ],
)
async def test_a_name_that_was_bent_to_this_machine_is_refused(host: str) -> None:
    # The page is the name's own: only `Host` tells it from the playground.
    with capture_logs() as logs:
        response = await ask({"host": host, "origin": f"http://{host}", "sec-fetch-site": "same-origin"})
    error = assert_error(response, 403, None, None)
    assert "allowed_hosts" in error["message"]
    assert len(turned_away(logs)) == 1


@pytest.mark.parametrize("named", ["llm.example", "LLM.example", "*"])
async def test_the_setting_admits_a_name(named: str) -> None:
    with capture_logs() as logs:
        refused = await ask({"host": "llm.example:8000"})
    assert refused.status_code == 403
    assert turned_away(logs) == [("llm.example", 'allowed_hosts = ["llm.example"]')]
    assert (await ask({"host": "llm.example:8000"}, allowed_hosts=(named,))).status_code == 200


@pytest.mark.parametrize("path", ["/health", "/ready", "/"])
async def test_probes_are_answered_under_any_name(path: str) -> None:
    async with client_of(app_of(), host="llm.example", origin=ELSEWHERE) as client:
        assert (await client.get(path)).status_code == 200


async def test_who_makes_up_origins_does_not_fill_the_log() -> None:
    with capture_logs() as logs:
        async with client_of(app_of()) as client:
            for number in range(2 * MOST_TOLD):
                for _ in range(2):
                    await client.get("/v1/models", headers={"origin": f"https://{number}.example"})
    assert len(turned_away(logs)) == MOST_TOLD
