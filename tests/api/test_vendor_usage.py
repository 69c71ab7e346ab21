"""What is counted of answers whose tokens another server counts, and of those that it does not finish."""

import asyncio
import json
from collections.abc import Sequence

import httpx
import pytest
from structlog.testing import capture_logs
from tests.api.vendors import KEY, Counting, at_a_vendor, counting_of, vendor_engine
from tests.engine.upstream.fakes import (
    Answer,
    Call,
    Message,
    breaks_after,
    frame,
    hangs,
    refuses,
    says,
    text_event,
    usage_event,
)
from tests.live import run_server

from afterword.gateway.grant import KeyLimits

ASK = {"prompt": "hi", "max_tokens": 1}


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
async def test_gate_01_a_vendor_may_count_more_than_was_reserved(stream: bool) -> None:
    fine = says(text_event("a", finish="length"), usage_event(60, 1))
    async with at_a_vendor(fine) as (_, counting), counting.client() as client:
        for number in (1, 2, 3):
            response = await client.post("/v1/completions", json=ASK | {"stream": stream})
            assert response.status_code == 200, response.text
            assert await counting.tokens_used() == 61 * number
    assert [(row.prompt_tokens, row.completion_tokens) for row in counting.ledger.rows] == [(60, 1)] * 3


async def test_gate_01_what_was_counted_beyond_the_limit_is_waited_for() -> None:
    fine = says(text_event("a", finish="length"), usage_event(60, 1))
    async with at_a_vendor(fine, limits=KeyLimits(tokens_per_minute=50)) as (_, counting), counting.client() as client:
        first = await client.post("/v1/completions", json=ASK)
        second = await client.post("/v1/completions", json=ASK)
    assert (first.status_code, second.status_code) == (200, 429)
    assert "61 are used, 0 are reserved" in second.json()["error"]["message"]
    assert 1 <= int(second.headers["retry-after"]) <= 61


@pytest.mark.parametrize(
    ("told", "counted"),
    [
        pytest.param((9, 1, 12), (9, 9, 1), id="more cached than there are"),
        pytest.param((2**63, 1, 0), (1, 0, 1), id="beyond all prompts"),
        pytest.param((9, 10**30, 0), (9, 0, 1), id="beyond what JSON and databases hold"),
    ],
)
async def test_gate_01_counts_that_cannot_be_are_not_believed(
    told: tuple[int, int, int], counted: tuple[int, int, int]
) -> None:
    n_prompt, n_completion, n_cached = told
    usage = usage_event(n_prompt, n_completion, cached_tokens=n_cached)
    async with at_a_vendor(says(text_event("a", finish="length"), usage)) as (_, counting), counting.client() as client:
        response = await client.post("/v1/completions", json=ASK)
    assert response.status_code == 200
    [row] = counting.ledger.rows
    assert (row.prompt_tokens, row.cached_tokens, row.completion_tokens) == counted


def row_of(counting: Counting) -> tuple[int, int, int, bool]:
    """The only row: status, prompt and completion tokens, and whether they are an estimate."""
    [row] = counting.ledger.rows
    return row.status, row.prompt_tokens, row.completion_tokens, row.estimated


PROMPT = {"prompt": "h\u00e9llo, said the cat to the dog", "max_tokens": 50}
"""Of 32 bytes, about 8 tokens."""

THREE = (text_event("a"), text_event("b"), text_event("c"))


def running(event: Message, n_prompt: int, n_completion: int) -> Message:
    """A chunk with the usage so far, as some vendors send it."""
    return event | {"usage": usage_event(n_prompt, n_completion)["usage"]}


async def leave_after(counting: Counting, last: str) -> None:
    """Send a request as a stream over a socket, and go when `last` has come; wait for its row."""
    with run_server(counting.app) as url:
        headers = {"authorization": f"Bearer {KEY}"}
        async with httpx.AsyncClient(base_url=url, headers=headers) as client:
            async with client.stream("POST", "/v1/completions", json=PROMPT | {"stream": True}) as response:
                async for line in response.aiter_lines():
                    if line.startswith("data:") and last in json.loads(line[5:])["choices"][0]["text"]:
                        break
            async with asyncio.timeout(10):
                while not counting.ledger.rows:
                    await asyncio.sleep(0.01)


@pytest.mark.parametrize(
    ("events", "counted"),
    [
        pytest.param(THREE, (499, 8, 3, True), id="no count"),
        pytest.param([running(event, 11, 1 + n) for n, event in enumerate(THREE)], (499, 11, 3, True), id="running"),
    ],
)
async def test_gate_02_a_client_that_leaves_is_charged_an_estimate(
    events: Sequence[Message], counted: tuple[int, int, int, bool]
) -> None:
    async with at_a_vendor(hangs(lambda: fake, *events)) as (fake, counting):
        await leave_after(counting, "c")
        assert row_of(counting) == counted
        assert await counting.tokens_used() == counted[1] + counted[2]


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
async def test_gate_02_nothing_is_charged_where_nothing_ran(stream: bool) -> None:
    async with at_a_vendor(refuses(500)) as (_, counting):
        engine = vendor_engine("http://127.0.0.1:1")
        try:
            elsewhere = counting_of(engine)
            for ours in (counting, elsewhere):
                async with ours.client() as client:
                    response = await client.post("/v1/completions", json=PROMPT | {"stream": stream})
                assert response.status_code == 502
                assert row_of(ours) == (502, 0, 0, False)
                assert await ours.tokens_used() == 0
        finally:
            await engine.aclose()


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
@pytest.mark.parametrize(
    ("events", "n_prompt"),
    [
        pytest.param(THREE, 8, id="no count"),
        pytest.param([running(event, 11, 1 + n) for n, event in enumerate(THREE)], 11, id="running"),
    ],
)
async def test_gate_02_an_answer_that_breaks_is_charged_as_far_as_it_came_and_has_failed(
    stream: bool, events: Sequence[Message], n_prompt: int
) -> None:
    async with at_a_vendor(breaks_after(*events)) as (_, counting), counting.client() as client:
        response = await client.post("/v1/completions", json=PROMPT | {"stream": stream})
        assert response.status_code == (200 if stream else 502)
        metrics = (await client.get("/metrics")).text
        assert row_of(counting) == (502, n_prompt, 3, True)
        assert await counting.tokens_used() == n_prompt + 3
    assert 'afterword_requests_total{route="/v1/completions",status="502"} 1.0' in metrics


async def test_gate_02_a_vendor_that_counts_nothing_leaves_an_estimate_also_in_the_answer() -> None:
    whole = says(*THREE, text_event("", finish="stop"))
    async with at_a_vendor(whole) as (_, counting), counting.client() as client:
        usage = (await client.post("/v1/completions", json=PROMPT)).json()["usage"]
    assert (usage["prompt_tokens"], usage["completion_tokens"], usage["total_tokens"]) == (8, 3, 11)
    assert row_of(counting) == (200, 8, 3, True)


async def test_gate_02_what_a_vendor_counts_at_the_end_is_no_estimate() -> None:
    whole = says(*THREE, text_event("", finish="stop"), usage_event(11, 4))
    async with at_a_vendor(whole) as (_, counting), counting.client() as client:
        await client.post("/v1/completions", json=PROMPT)
    assert row_of(counting) == (200, 11, 4, False)


async def test_gate_02_a_limit_of_tokens_is_held_to_the_estimate_not_to_bytes() -> None:
    whole = says(text_event("a", finish="stop"), usage_event(100, 1))
    limits = KeyLimits(tokens_per_minute=200)
    async with at_a_vendor(whole, limits=limits) as (_, counting), counting.client() as client:
        assert (await client.post("/v1/completions", json={"prompt": "x" * 400, "max_tokens": 100})).status_code == 200
        assert await counting.tokens_used() == 101


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
async def test_gate_03_an_empty_finish_reason_is_none(stream: bool) -> None:
    whole = says(text_event("a", finish=""), text_event("b", finish=""), text_event("", finish="eos_token"))
    async with at_a_vendor(whole) as (_, counting), counting.client() as client:
        response = await client.post("/v1/completions", json=PROMPT | {"stream": stream})
    assert response.status_code == 200
    assert '"error"' not in response.text
    assert counting.ledger.rows[0].finish_reasons == ("stop",)


@pytest.mark.parametrize("n_first", [0, 1, 2, 3, 20], ids=lambda n: f"cut after {n}")
async def test_gate_05_a_stream_may_begin_with_a_byte_order_mark(n_first: int) -> None:
    async def marked(call: Call) -> None:
        sent = b"\xef\xbb\xbf" + b"".join(frame(event) for event in (*THREE, text_event("", finish="stop")))
        await call.start()
        for part in (sent[:n_first], sent[n_first:]):
            await call.write(part)
            await asyncio.sleep(0.01)
        await call.end()

    async with at_a_vendor(marked) as (_, counting), counting.client() as client:
        response = await client.post("/v1/completions", json=PROMPT)
    assert response.json()["choices"][0]["text"] == "abc"


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
@pytest.mark.parametrize(
    ("trailer", "counted"),
    [
        pytest.param([usage_event(11, 3)], (200, 11, 3, False), id="counted"),
        pytest.param([], (200, 8, 3, True), id="not counted"),
    ],
)
async def test_gate_04_a_finished_answer_does_not_wait_for_the_connection_to_close(
    stream: bool, trailer: list[Message], counted: tuple[int, int, int, bool]
) -> None:
    """The idle limit of the vendor is 20 seconds, after which the request would fail."""
    whole = hangs(lambda: fake, *THREE, text_event("", finish="stop"), *trailer)
    async with at_a_vendor(whole) as (fake, counting), counting.client() as client:
        response = await client.post("/v1/completions", json=PROMPT | {"stream": stream})
        assert response.status_code == 200
        assert '"error"' not in response.text
    assert row_of(counting) == counted


@pytest.mark.parametrize("content_type", ["application/json", "text/event-stream"])
async def test_gate_06_an_answer_larger_than_what_was_asked_for_is_not_read_to_its_end(content_type: str) -> None:
    async def large(call: Call) -> None:
        await call.start(200, content_type)
        await call.write(b'{"choices": [{"text": "' if content_type == "application/json" else b"data: ")
        for _ in range(32):
            await call.write(b"x" * 2**20)
        await call.end()

    async with at_a_vendor(large) as (_, counting), counting.client() as client:
        with capture_logs() as logs:
            response = await client.post("/v1/completions", json=PROMPT)
    assert response.status_code == 502
    assert any("EventTooLong('more than 1278976 bytes')" in str(line.get("detail")) for line in logs)
    assert row_of(counting) == (502, 0, 0, False)


SECRET = "sk-vendor-0123456789"


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(refuses(400, {"message": f"API key not valid {SECRET}"}), id="our key"),
        pytest.param(refuses(400, {"message": "Bad.", "code": "invalid_api_key"}), id="its code"),
        pytest.param(refuses(401, {"message": f"Incorrect key Bearer {SECRET}"}), id="its status"),
        pytest.param(says({"error": {"message": f"authentication of {SECRET}", "code": 400}}), id="an event"),
        pytest.param(says(*THREE[:1], b'data: {"choices": [{"text": "private words'), id="cut off in its text"),
        pytest.param(says({"choices": [{"text": {"private words": 1}}]}), id="another shape"),
    ],
)
async def test_gate_07_neither_secrets_nor_text_of_a_vendor_are_in_answers_or_logs(
    answer: Answer, stream: bool
) -> None:
    async with at_a_vendor(answer, api_key=SECRET) as (_, counting), counting.client() as client:
        with capture_logs() as logs:
            response = await client.post("/v1/completions", json=PROMPT | {"stream": stream})
    assert counting.ledger.rows[0].status == 502
    assert logs != []
    for said in (response.text, str(logs)):
        assert "sk-vendor" not in said
        assert "private" not in said


@pytest.mark.parametrize("shown", [SECRET, "sk-oth***6789", "hf_abcdefghij"])
async def test_gate_07_a_mistake_of_the_client_is_passed_on_without_what_looks_like_a_key(shown: str) -> None:
    answer = refuses(400, {"message": f"max_tokens is too large for {shown}", "param": "max_tokens"})
    async with at_a_vendor(answer, api_key=SECRET) as (_, counting), counting.client() as client:
        error = (await client.post("/v1/completions", json=PROMPT)).json()["error"]
    assert (error["message"], error["param"]) == ("max_tokens is too large for [removed]", "max_tokens")
