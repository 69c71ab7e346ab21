"""What is counted of answers whose tokens another server counts, and of those that it does not finish."""

import pytest
from tests.api.vendors import at_a_vendor
from tests.engine.upstream.fakes import says, text_event, usage_event

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
        pytest.param((2**63, 1, 0), (2, 0, 1), id="beyond all prompts"),
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
