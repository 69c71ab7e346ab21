"""Limits shared through Redis, with Redis there and with Redis gone."""

from contextlib import suppress
from pathlib import Path

import pytest
from structlog.testing import capture_logs
from tests.gateway.clock import Clock
from tests.gateway.redis_server import free_port, run_redis
from tests.gateway.test_limiter import key, refusal

from afterword.errors import LimitExceeded
from afterword.gateway.grant import Grant
from afterword.gateway.interfaces import Allowance
from afterword.gateway.limiter_redis import LEASE
from afterword.gateway.limiter_shared import PAUSE, redis_limiter

GRANT = key(requests_per_minute=2, tokens_per_minute=100)


async def test_processes_that_share_a_redis_share_the_limits(redis_url: str) -> None:
    one, other = redis_limiter(redis_url), redis_limiter(redis_url)
    first = await one.admit(GRANT, 40)
    assert (await other.limit_state(GRANT)).tokens == Allowance(100, 60, 60.0)
    assert (await refusal(other, GRANT, 61)).kind == "tokens"
    second = await other.admit(GRANT, 60)
    assert (await refusal(one, GRANT, 0)).kind == "requests"
    await first.settle(40)
    await second.settle(0)
    assert (await one.limit_state(GRANT)).tokens is not None
    for limiter in (one, other):
        await limiter.aclose()


async def test_while_redis_is_gone_each_process_counts_alone(tmp_path: Path) -> None:
    port, clock = free_port(), Clock(0.0)
    with capture_logs() as logs:
        with run_redis(tmp_path, port) as url:
            limiter = redis_limiter(url, clock=clock)
            running = await limiter.admit(GRANT, 50)
            assert limiter.n_alone == 0
        await running.settle(50)
        assert (await limiter.limit_state(GRANT)).tokens == Allowance(100, 100, 0.0)
        alone = await limiter.admit(GRANT, 60)
        with pytest.raises(LimitExceeded):
            await limiter.admit(GRANT, 60)
        await alone.settle(60)
        assert limiter.n_alone == 2
        with run_redis(tmp_path, port):
            clock.advance(PAUSE - 0.001)
            await (await limiter.admit(GRANT, 1)).settle(1)
            assert limiter.n_alone == 3
            clock.advance(0.001)
            await (await limiter.admit(GRANT, 100)).settle(100)
            assert limiter.n_alone == 3
            await limiter.aclose()
    assert [line["event"] for line in logs] == [
        "limits are not shared: Redis cannot be reached, each process counts alone",
        "limits are shared again",
    ]


async def test_a_key_without_limits_never_needs_redis() -> None:
    limiter = redis_limiter(f"redis://127.0.0.1:{free_port()}")
    await (await limiter.admit(key(), 10)).settle(10)
    await limiter.limit_state(key())
    assert limiter.n_alone == 0
    await limiter.aclose()


@pytest.mark.parametrize("step", [3600.0, -3600.0], ids=["an hour forth", "an hour back"])
@pytest.mark.parametrize(
    "grant",
    [key(requests_per_minute=2), key(tokens_per_minute=100), key(concurrent_requests=2)],
    ids=["requests", "tokens", "requests at once"],
)
async def test_gate_08_a_clock_that_is_set_frees_or_blocks_one_window_at_most(
    redis_url: str, clock: Clock, grant: Grant, step: float
) -> None:
    """Of the machine that all processes run on. Redis itself counts on as it did."""
    limiter = redis_limiter(redis_url)
    running = [await limiter.admit(grant, 50) for _ in range(2)]
    if grant.limits.concurrent_requests is None:
        for each in running:
            await each.settle(50)
    clock.advance(step)
    n_more = 0
    with suppress(LimitExceeded):
        while n_more < 10:
            running.append(await limiter.admit(grant, 50))
            n_more += 1
    # Forth: all that was counted is over. Back: it still counts.
    assert n_more == (2 if step > 0 else 0)
    if step < 0:
        refused = await refusal(limiter, grant, 50)
        assert refused.retry_after is not None
        assert refused.retry_after <= 61
    await limiter.aclose()


async def test_gate_08_tokens_from_before_a_clock_was_set_back_count_for_a_minute_more(
    redis_url: str, clock: Clock
) -> None:
    limiter, grant = redis_limiter(redis_url), key(tokens_per_minute=100)
    for _ in range(2):
        await (await limiter.admit(grant, 30)).settle(30)
    clock.advance(-3600)
    assert (await limiter.limit_state(grant)).tokens == Allowance(100, 40, 61.0)
    clock.advance(60.5)
    await (await limiter.admit(grant, 40)).settle(40)
    clock.advance(0.5)
    assert (await limiter.limit_state(grant)).tokens == Allowance(100, 60, 60.0)
    await limiter.aclose()


async def test_gate_08_the_lease_of_a_process_that_died_before_a_clock_was_set_back_ends(
    redis_url: str, clock: Clock
) -> None:
    died, limiter, grant = redis_limiter(redis_url), redis_limiter(redis_url), key(concurrent_requests=1)
    await died.admit(grant, 1)
    await died.aclose()
    clock.advance(-3600)
    assert (await refusal(limiter, grant, 1)).retry_after == 1
    clock.advance(LEASE)
    await limiter.admit(grant, 1)
    await limiter.aclose()
