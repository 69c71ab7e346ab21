"""Budgets in Redis: leases, what is left behind, and processes that share them."""

from collections.abc import AsyncIterator

import pytest
from redis import Redis
from redis.asyncio import Redis as AsyncRedis
from tests.gateway.clock import Clock
from tests.gateway.test_limiter import key

from afterword.gateway.limiter_budget import Bounds
from afterword.gateway.limiter_redis import LEASE, RedisBudgets
from afterword.gateway.limiter_shared import redis_limiter

ONE_AT_ONCE = Bounds(running=1, tokens=None)


@pytest.fixture
async def mine(redis_url: str) -> AsyncIterator[RedisBudgets]:
    """The budgets as one process has them."""
    made = RedisBudgets(AsyncRedis.from_url(redis_url))
    yield made
    await made.aclose()


@pytest.fixture
async def other(redis_url: str) -> AsyncIterator[RedisBudgets]:
    """The same budgets in another process."""
    made = RedisBudgets(AsyncRedis.from_url(redis_url))
    yield made
    await made.aclose()


async def test_the_place_of_a_process_that_died_is_free_once_its_lease_has_ended(
    mine: RedisBudgets, other: RedisBudgets, clock: Clock
) -> None:
    await mine.take("k", 10, ONE_AT_ONCE)
    clock.advance(LEASE - 0.001)
    assert (await other.take("k", 10, ONE_AT_ONCE))[0] is None
    clock.advance(0.001)
    request, budget = await other.take("k", 10, ONE_AT_ONCE)
    assert request is not None
    assert (budget.n_running, budget.n_reserved) == (0, 0)


async def test_a_place_is_kept_as_long_as_its_process_renews_the_lease(
    mine: RedisBudgets, other: RedisBudgets, clock: Clock
) -> None:
    request, _ = await mine.take("k", 10, ONE_AT_ONCE)
    for _ in range(4):
        clock.advance(LEASE / 3)
        await mine.renew()
    found = await other.look("k")
    assert (found.n_running, found.n_reserved) == (1, 10)
    assert request is not None
    await mine.settle(request, 10)
    await mine.renew()
    assert (await other.look("k")).n_running == 0


async def lease_end(redis_url: str) -> float:
    async with AsyncRedis.from_url(redis_url) as client:
        [(_, end)] = await client.zrange("afterword:{k}:running", 0, 0, withscores=True)
    return float(end)


async def test_leases_are_renewed_without_anybody_asking(redis_url: str, clock: Clock) -> None:
    mine = RedisBudgets(AsyncRedis.from_url(redis_url), lease=0.03)
    try:
        await mine.take("k", 10, ONE_AT_ONCE)
        clock.advance(5.0)
        # The suite's timeout ends a wait in vain.
        while (await lease_end(redis_url)) < clock.now:
            pass
    finally:
        await mine.aclose()


async def test_a_request_that_outlived_its_lease_counts_with_what_it_used(
    mine: RedisBudgets, other: RedisBudgets, clock: Clock
) -> None:
    request, _ = await mine.take("k", 10, ONE_AT_ONCE)
    clock.advance(LEASE)
    await other.look("k")
    assert request is not None
    await mine.settle(request, 7)
    assert (await other.look("k")).n_used == 7


async def test_nothing_stays_in_redis_for_good(redis_url: str) -> None:
    limiter = redis_limiter(redis_url)
    grant = key(requests_per_minute=9, tokens_per_minute=100, concurrent_requests=9)
    running = await limiter.admit(grant, 10)
    await (await limiter.admit(grant, 10)).settle(10)
    with Redis.from_url(redis_url) as client:
        names = client.keys()
        assert len(names) == 3
        assert all(0 < client.ttl(name) <= 120 for name in names)
    await running.settle(0)
    await limiter.aclose()
