from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import httpx
import pytest

Serve = Callable[[Any], AbstractContextManager[str]]


async def hello(scope: Any, receive: Any, send: Any) -> None:
    """An ASGI application without a lifespan that answers one word."""
    assert scope["type"] == "http"
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": scope["path"].encode()})


async def broken(scope: Any, receive: Any, send: Any) -> None:
    """An ASGI application that fails at start."""
    await receive()
    await send({"type": "lifespan.startup.failed", "message": "no model"})


def test_server_answers_on_its_port_and_is_gone_afterwards(run_server: Serve) -> None:
    with run_server(hello) as url:
        assert httpx.get(f"{url}/hello").text == "/hello"
    with pytest.raises(httpx.ConnectError):
        httpx.get(url)


def test_application_that_fails_to_start_is_an_error_and_no_hang(run_server: Serve) -> None:
    with pytest.raises(RuntimeError, match="did not start"), run_server(broken) as url:
        httpx.get(url)
