"""The content filter from the outside: routes, streams, engines, the log and the metrics."""

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from structlog.testing import capture_logs
from tests.api.folding import chunks_of, events_of, fold
from tests.api.served import app_of, client_of, is_idle
from tests.completions.filter.watching import listed
from tests.fakes import eventually
from tests.models.engines import open_tiny
from tests.models.tiny import Tiny

from afterword.completions.filter.function_filter import FunctionFilter
from afterword.completions.filter.verdict import Context, Flag, Hold, Verdict
from afterword.engine.base import Engine
from afterword.engine.echo import EchoEngine

BAD = {"prompt": "so bad it is ", "temperature": 0, "seed": 1, "max_tokens": 64}

REQUESTS: list[Any] = [
    pytest.param(BAD, id="plain"),
    pytest.param(BAD | {"logprobs": 0}, id="logprobs 0"),
    pytest.param(BAD | {"n": 3, "temperature": 1}, id="n"),
    pytest.param(BAD | {"best_of": 3, "temperature": 1, "logprobs": 0}, id="best_of"),
    pytest.param(BAD | {"prompt": ["so bad it is ", "so good it is ", "bad "]}, id="batch"),
    pytest.param(BAD | {"stop": ["bad it!", "good"], "logprobs": 0}, id="stop that holds the word back"),
    pytest.param(BAD | {"stop": "bad", "include_stop_str_in_output": True}, id="stop in the text"),
    pytest.param(BAD | {"return_token_ids": True}, id="token ids"),
    pytest.param(BAD | {"max_tokens": 6}, id="at the end"),
    pytest.param(BAD | {"min_tokens": 20}, id="min_tokens"),
]


def only_in(text: str, others: Sequence[str]) -> tuple[int, str]:
    """Where a piece of `text` starts that the others do not have, and the pattern that finds it."""
    start = next(i for i in range(5, len(text)) if all(text[i : i + 4] not in other for other in [*others, text[:i]]))
    return start, "/" + "".join(f"\\U{ord(character):08x}" for character in text[start : start + 4]) + "/"


async def ask(app: FastAPI, body: dict[str, Any], path: str = "/v1/completions") -> httpx.Response:
    async with client_of(app) as client:
        return await client.post(path, json=body)


async def streamed(app: FastAPI, body: dict[str, Any]) -> dict[str, Any]:
    response = await ask(app, body | {"stream": True, "stream_options": {"include_usage": True}})
    assert b"bad" not in response.content
    return fold(chunks_of(response.text))


@pytest.mark.parametrize("body", REQUESTS)
async def test_nothing_flagged_leaves_and_the_fold_of_the_stream_is_the_plain_body(body: dict[str, Any]) -> None:
    app = app_of(content_filter=listed("bad"))
    plain = await ask(app, body)
    assert b"bad" not in plain.content
    choices = plain.json()["choices"]
    assert any(choice["finish_reason"] == "content_filter" for choice in choices)
    if "best_of" not in body:
        assert (await streamed(app, body))["choices"] == choices


async def test_the_end_of_a_flagged_choice_is_an_extra_chunk_without_text() -> None:
    response = await ask(app_of(content_filter=listed("bad")), BAD | {"stream": True})
    parts = [chunk["choices"][0] for chunk in chunks_of(response.text)]
    assert "".join(part["text"] for part in parts) == "so "
    assert [part["finish_reason"] for part in parts] == [None] * (len(parts) - 1) + ["content_filter"]
    assert parts[-1]["text"] == ""


@pytest.mark.parametrize("stream", [False, True])
async def test_the_echo_of_a_prompt_is_the_client_s_own_text(stream: bool) -> None:
    response = await ask(app_of(content_filter=listed("bad")), BAD | {"echo": True, "stream": stream})
    choices = fold(chunks_of(response.text))["choices"] if stream else response.json()["choices"]
    assert (choices[0]["text"], choices[0]["finish_reason"]) == ("so bad it is so ", "content_filter")


async def test_the_scale_gp_dialect_is_filtered_too() -> None:
    body = BAD | {"model": "local/echo"}
    response = await ask(app_of(content_filter=listed("bad")), body, "/v5/completions")
    assert response.json()["choices"][0]["finish_reason"] == "content_filter"


async def test_usage_counts_what_was_sampled_and_left_out() -> None:
    usage = (await ask(app_of(content_filter=listed("bad")), BAD)).json()["usage"]
    assert 7 <= usage["completion_tokens"] < 64
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]


@asynccontextmanager
async def tiny_llama() -> AsyncIterator[Engine]:
    async with open_tiny(Tiny("F32")) as engine:
        yield engine


@asynccontextmanager
async def echo() -> AsyncIterator[Engine]:
    engine = EchoEngine()
    yield engine
    await engine.aclose()


@pytest.mark.parametrize("open_engine", [echo, tiny_llama])
@pytest.mark.parametrize("stream", [False, True])
async def test_one_choice_of_three_is_hit_and_the_others_finish(open_engine: Any, stream: bool) -> None:
    body = {"prompt": "The quick brown fox", "n": 3, "seed": 3, "max_tokens": 48, "ignore_eos": True, "stream": stream}
    async with open_engine() as engine:
        plain = await ask(app_of(engine), body | {"stream": False})
        first, second, third = [choice["text"] for choice in plain.json()["choices"]]
        start, entry = only_in(second, [first, third])
        response = await ask(app_of(engine, content_filter=listed(entry)), body)
        choices = fold(chunks_of(response.text))["choices"] if stream else response.json()["choices"]
        await eventually(lambda: is_idle(engine))
    assert [(choice["text"], choice["finish_reason"]) for choice in choices] == [
        (first, "length"),
        (second[:start], "content_filter"),
        (third, "length"),
    ]


async def test_a_hit_is_logged_with_who_asked_and_without_the_text() -> None:
    app = app_of(content_filter=listed("# policy", "bad"))
    with capture_logs() as logs:
        async with client_of(app, **{"x-request-id": "r-17"}) as client:
            await client.post("/v1/completions", json=BAD | {"user": "someone", "prompt": ["good ", "so bad "]})
    hit, request = logs
    assert hit == {
        "event": "completion flagged",
        "log_level": "warning",
        "request_id": "r-17",
        "user": "someone",
        "model": "echo",
        "prompt_index": 1,
        "candidate": 0,
        "rule": "line 2",
    }
    assert sorted(request["finish_reasons"]) == ["content_filter", "length"]


async def test_hits_are_counted() -> None:
    app = app_of(content_filter=listed("bad"))
    await ask(app, BAD | {"n": 2})
    async with client_of(app) as client:
        metrics = (await client.get("/metrics")).text
    assert 'afterword_completions_flagged_total{model="echo"} 2.0' in metrics


def breaks_late(text: str, final: bool, context: Context) -> Verdict:
    if len(text) > 4:
        raise RuntimeError("the classifier is down")
    return Hold(2)


async def test_a_filter_that_breaks_fails_the_request_and_lets_nothing_unjudged_leave() -> None:
    app = app_of(content_filter=FunctionFilter(breaks_late, "m:f"))
    with capture_logs() as logs:
        # With log-probabilities chunks are never merged, so the filter sees one character more each time.
        plain = await ask(app, BAD | {"logprobs": 0})
        stream = await ask(app, BAD | {"logprobs": 0, "stream": True})
    assert plain.status_code == 500
    assert plain.json()["error"]["type"] == "server_error"
    *chunks, last = [json.loads(event) for event in events_of(stream.text)]
    assert "".join(chunk["choices"][0]["text"] for chunk in chunks) == "so"
    assert last["error"]["type"] == "server_error"
    assert "classifier" not in plain.text + stream.text
    causes = [str(line["exc_info"].__cause__) for line in logs if line["event"] == "request failed"]
    assert causes == ["the classifier is down"] * 2


async def test_an_async_function_judges_streams() -> None:
    async def judge(text: str, final: bool, context: Context) -> Verdict:
        return Flag(text.index("bad"), "policy") if "bad" in text else Hold(max(0, len(text) - 2))

    app = app_of(content_filter=FunctionFilter(judge, "m:judge"))
    (choice,) = (await streamed(app, BAD))["choices"]
    assert (choice["text"], choice["finish_reason"]) == ("so ", "content_filter")
