"""Ledger, limits and what was sent agree, whatever engine it is and whenever an answer breaks or its client leaves."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, get_args

import pytest
from tests.api.vendors import KEY, Counting, counting_of
from tests.fakes import eventually, generation_request
from tests.truth.client import Client, Sent
from tests.truth.engines import (
    FEW,
    MANY,
    Bench,
    Moment,
    OpenBench,
    open_cluster,
    open_echo,
    open_llama,
    open_upstream,
    open_vendor,
    open_vllm,
)

from afterword.gateway.grant import KeyLimits

LIMITS = KeyLimits(tokens_per_minute=100_000, concurrent_requests=1)

ENDS: tuple[Moment, ...] = ("last", "all", "fails first", "fails later")
"""The moments at which a request ends by itself."""

LEAVES: tuple[Moment, ...] = ("queued", "begun", "after 1", "after 3", "unread", "last")


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
@pytest.mark.parametrize("moment", get_args(Moment))
@pytest.mark.parametrize(
    "opened", [open_echo, open_llama, open_vllm, open_vendor, open_upstream, open_cluster], ids=lambda one: one.__name__
)
async def test_ledger_limits_and_answer_agree(opened: OpenBench, moment: Moment, stream: bool) -> None:
    if moment == "last" and not stream:
        pytest.skip("a plain answer comes in one piece")
    async with opened(moment) as bench, occupied(bench, moment):
        counting = counting_of(bench.engine, LIMITS)
        before = bench.stats().completion_tokens
        client = Client(
            counting.app, KEY, reads=moment != "unread", leaves=going(bench, moment, stream=stream, before=before)
        )
        sent = await client.ask(body_of(bench, moment, stream=stream))
        if bench.closing is not None:
            await bench.closing
        await check(bench, counting, moment, sent, before)


@asynccontextmanager
async def occupied(bench: Bench, moment: Moment) -> AsyncIterator[None]:
    """Others' requests are on the engine where ours shall wait."""
    async with AsyncExitStack() as stack:
        for _ in range(5 if moment == "queued" else 0):
            request = generation_request((104, 105), max_tokens=MANY, end_ids=frozenset())
            await stack.enter_async_context(bench.engine.generate(request))
        if moment == "queued":
            await eventually(lambda: bench.stats().running == 1)
        yield


def body_of(bench: Bench, moment: Moment, *, stream: bool) -> dict[str, Any]:
    n = FEW if moment in ENDS else MANY
    counted = {"stream_options": {"include_usage": True, "continuous_usage_stats": True}} if stream else {}
    return {"prompt": "hello ", "temperature": 0, "stream": stream, "max_tokens": n} | counted | bench.body


def going(bench: Bench, moment: Moment, *, stream: bool, before: int) -> Callable[[Sent], bool]:
    """When the client leaves, or the engine is closed under it."""
    n_waiting = bench.stats().waiting

    def is_past(n: int, sent: Sent) -> bool:
        return sent.n_chunks > 0 if stream else bench.stats().completion_tokens - before >= n

    def leaves(sent: Sent) -> bool:
        match moment:
            case "queued":
                return bench.stats().waiting > n_waiting
            case "begun":
                return bench.has_begun()
            case "after 1" | "after 3":
                return is_past(int(moment[-1]), sent)
            case "unread":
                return bench.stats().completion_tokens - before >= FEW
            case "last":
                return sent.is_finished
            case "closed":
                if bench.closing is None and is_past(1, sent):
                    bench.closing = asyncio.create_task(bench.engine.aclose())
                return False
            case _:
                return False

    return leaves


async def check(bench: Bench, counting: Counting, moment: Moment, sent: Sent, before: int) -> None:
    [row] = counting.ledger.rows
    n_generated = bench.stats().completion_tokens - before
    if moment in LEAVES:
        assert row.status == 499
    elif moment == "all":
        assert row.status == sent.status == 200
    else:
        assert row.status == (503 if moment == "closed" else bench.fails_as)
        assert b'"error"' in sent.body
    assert await counting.tokens_used() == row.prompt_tokens + row.completion_tokens
    if moment in ("queued", "fails first"):
        assert (row.prompt_tokens, row.completion_tokens) == (0, 0)
        assert sent.usage is None
    else:
        # What is closed at once may have said nothing yet, and then has failed first.
        assert row.prompt_tokens > 0 or (moment == "closed" and not bench.counts_exactly)
    told = sent.usage
    if told is not None:
        assert row.prompt_tokens == told["prompt_tokens"]
        assert told["completion_tokens"] <= row.completion_tokens
        if moment in ("all", "last"):
            assert told["completion_tokens"] == row.completion_tokens == FEW
    assert sent.n_chunks <= row.completion_tokens
    if moment == "fails later":
        assert row.completion_tokens == bench.fails_after
    elif moment != "fails first":
        assert row.completion_tokens <= n_generated
        assert row.completion_tokens == n_generated or not bench.counts_exactly
    assert row.estimated == (bench.estimates and row.prompt_tokens > 0 and moment not in ("last", "all"))
