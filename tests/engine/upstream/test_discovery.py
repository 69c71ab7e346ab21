"""What vendors say of their models: read within bounds, whatever they send."""

import asyncio
import gzip
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from tests.engine.upstream.opening import vendor
from tests.live import run_server

from afterword.config.vendor import VendorConfig
from afterword.engine.upstream import discovery
from afterword.engine.upstream.discovery import About, ask_about

CARD = b'{"data": [{"id": "m", "max_model_len": 2048}]}'


@contextmanager
def describing(*chunks: bytes, status: int = 200, pause: float = 0, **headers: str) -> Iterator[VendorConfig]:
    """A vendor that answers every GET like this."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            while True:
                kind = (await receive())["type"]
                await send({"type": f"{kind}.complete"})
                if kind == "lifespan.shutdown":
                    return
        raw = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
        await send({"type": "http.response.start", "status": status, "headers": raw})
        for chunk in chunks:
            await send({"type": "http.response.body", "body": chunk, "more_body": True})
            await asyncio.sleep(pause)
        await send({"type": "http.response.body", "body": b""})

    with run_server(app) as url:
        yield vendor(url, settings={"connect_timeout": 1})


def test_what_is_said_is_read() -> None:
    with describing(CARD[:10], CARD[10:]) as there:
        assert ask_about(there, "m") == About(context=2048)


@pytest.mark.parametrize(
    ("chunks", "answer", "problem"),
    [
        pytest.param((b"[]",), {}, "it has no model 'm'; it has none", id="no object"),
        pytest.param((b"{",), {}, "unexpected end of data", id="no JSON"),
        pytest.param((CARD,), {"status": 500}, "/v1/models was answered with HTTP status 500", id="status"),
        pytest.param((b" " * 2000,) * 9, {}, "/v1/models has more than 10000 bytes", id="too long"),
        pytest.param((b" ",) * 30, {"pause": 0.1}, "/v1/models took longer than 1.0 s", id="slow"),
        pytest.param((gzip.compress(CARD),), {"content_encoding": "gzip"}, "compressed", id="compressed"),
    ],
)
def test_what_cannot_be_read_is_a_problem(
    monkeypatch: pytest.MonkeyPatch, chunks: tuple[bytes, ...], answer: dict[str, Any], problem: str
) -> None:
    monkeypatch.setattr(discovery, "MAX_BODY", 10_000)
    with describing(*chunks, **answer) as there:
        found = ask_about(there, "m").problem
    assert found is not None
    assert problem in found
