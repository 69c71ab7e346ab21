"""Deadlines from the outside: header, setting, both kinds of answers, the usage row."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
from structlog.testing import capture_logs
from tests.api.folding import chunks_of, fold
from tests.api.gateways import ListedRows, gateway_of
from tests.api.served import app_of, assert_error, client_of, is_idle
from tests.fakes import eventually

from afterword.engine.echo import EchoEngine
from afterword.gateway.grant import Grant

NEVER = 3600.0
"""Seconds between tokens: there is one, and none after it."""
SOON = {"x-request-timeout": "1.0"}
BODY: dict[str, Any] = {"prompt": "abc", "max_tokens": 9, "temperature": 0}


def slow(**settings: Any) -> EchoEngine:
    return EchoEngine(token_delay=NEVER, **settings)


@asynccontextmanager
async def asked(engine: EchoEngine, rows: ListedRows, **settings: Any) -> AsyncIterator[httpx.AsyncClient]:
    app = app_of(engine, gateway=gateway_of({"k": Grant("k", "a")}, ledger=rows), **settings)
    async with client_of(app, authorization="Bearer k") as client:
        yield client


@pytest.mark.parametrize("how", ["header", "setting", "both"])
async def test_an_answer_is_what_there_is_by_then(how: str) -> None:
    rows, engine = ListedRows(), slow()
    settings = {} if how == "header" else {"request_timeout": 1}
    headers = {"header": SOON, "setting": {}, "both": {"x-request-timeout": "900"}}[how]
    async with asked(engine, rows, **settings) as client:
        answer = await client.post("/v1/completions", json=BODY, headers=headers)
        await eventually(lambda: is_idle(engine))
    [choice] = answer.json()["choices"]
    assert choice == {"text": "a", "index": 0, "logprobs": None, "finish_reason": "length", "stop_reason": "timeout"}
    assert answer.headers["x-timed-out"] == "true"
    [row] = rows.rows
    assert (row.status, row.prompt_tokens, row.completion_tokens, row.finish_reasons) == (200, 3, 1, ("timeout",))
    assert answer.json()["usage"]["completion_tokens"] == 1


async def test_a_stream_ends_like_any_other() -> None:
    rows, body = ListedRows(), BODY | {"stream": True, "n": 2, "stream_options": {"include_usage": True}}
    async with asked(slow(), rows) as client:
        answer = await client.post("/v1/completions", json=body, headers=SOON)
    assert answer.text.endswith("data: [DONE]\n\n")
    chunks = chunks_of(answer.text)
    ends = [choice for one in chunks for choice in one["choices"] if choice["finish_reason"] is not None]
    assert [(end["text"], end["finish_reason"], end["stop_reason"]) for end in ends] == [("", "length", "timeout")] * 2
    assert [choice["text"] for choice in fold(chunks)["choices"]] == ["a", "a"]
    assert chunks[-1]["usage"]["completion_tokens"] == rows.rows[0].completion_tokens == 2


@pytest.mark.parametrize("stream", [False, True])
async def test_who_still_waits_by_then_gets_a_504(stream: bool) -> None:
    rows, engine = ListedRows(), slow(n_slots=1)
    async with asked(engine, rows) as client:
        running = asyncio.create_task(client.post("/v1/completions", json=BODY))
        await eventually(lambda: engine.stats().running == 1)
        with capture_logs() as logs:
            answer = await client.post(
                "/v1/completions", json=BODY | {"stream": stream}, headers={"x-request-timeout": "0.05"}
            )
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    error = assert_error(answer, 504, None, "request_timed_out")
    assert "x-request-timeout" in error["message"]
    assert answer.headers["x-should-retry"] == "false"
    assert (rows.rows[0].status, rows.rows[0].prompt_tokens, rows.rows[0].completion_tokens) == (504, 0, 0)
    assert [line for line in logs if line["log_level"] == "error"] == []


@pytest.mark.parametrize("said", ["", "soon", "0", "-1", "nan", "inf", "1e400", "1,5"])
async def test_what_is_no_number_of_seconds_is_refused(said: str) -> None:
    async with client_of(app_of()) as client:
        answer = await client.post("/v1/completions", json=BODY, headers={"x-request-timeout": said})
    error = assert_error(answer, 400, "x-request-timeout", "invalid_value")
    assert "above 0" in error["message"]


async def test_time_enough_changes_nothing() -> None:
    async with client_of(app_of(request_timeout=900)) as client:
        answer = await client.post("/v1/completions", json=BODY, headers={"x-request-timeout": "800.5"})
    assert answer.json()["choices"][0]["text"] == "abcabcabc"
    assert "x-timed-out" not in answer.headers
    assert "stop_reason" not in answer.json()["choices"][0]
