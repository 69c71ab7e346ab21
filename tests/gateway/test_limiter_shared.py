"""Limits shared through Redis, with Redis there and with Redis gone."""

from pathlib import Path

import pytest
from structlog.testing import capture_logs
from tests.gateway.clock import Clock
from tests.gateway.redis_server import free_port, run_redis
from tests.gateway.test_limiter import key, refusal

from afterword.errors import LimitExceeded
from afterword.gateway.interfaces import Allowance
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
