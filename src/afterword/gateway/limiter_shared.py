"""Limits that several processes share through Redis, and a fallback while it cannot be reached.

Then each process counts for itself: servers go on answering, and no key gets more than its limits from any one process.
The first failure and the recovery are logged; requests that were counted by one process alone are in a counter.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass

import structlog
from limits.aio.storage import RedisStorage
from redis.asyncio import BlockingConnectionPool, Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError
from typing_extensions import override

from afterword.gateway.grant import UNLIMITED, Grant
from afterword.gateway.interfaces import Limiter, LimitState, Reservation
from afterword.gateway.limiter import RateLimiter, memory_limiter
from afterword.gateway.limiter_redis import LEASE, RedisBudgets
from afterword.gateway.limiter_requests import RedisRequests
from afterword.gateway.unlimited import NO_RESERVATION

UNREACHABLE = (RedisError, OSError)
"""What redis-py raises while Redis cannot be reached, and for invalid answers."""

TIMEOUT = 0.5
"""Seconds that Redis has for an answer. A request needs several, one after the other."""

PAUSE = 2.0
"""Seconds after a failure without another attempt, so that not every request waits for the time-out."""

CONNECTIONS = 32

log = structlog.get_logger("afterword.gateway")


def redis_limiter(url: str, *, clock: Callable[[], float] = time.monotonic, lease: float = LEASE) -> "SharedLimiter":
    """Limits shared through the Redis at `url`; nothing is connected yet. Raises `ValueError` for no such URL.

    `clock` says when to try again after a failure; `lease`: seconds for which a dead process's requests count.
    """
    pool = BlockingConnectionPool.from_url(
        url,
        max_connections=CONNECTIONS,
        timeout=TIMEOUT,
        socket_timeout=TIMEOUT,
        socket_connect_timeout=TIMEOUT,
        # Once, because a connection that was idle may have been closed.
        retry=Retry(NoBackoff(), 1),
    )
    # The library has types for options of its own only; with a pool it ignores its URL.
    storage = RedisStorage(
        "async+redis://",
        implementation="redispy",
        key_prefix="afterword",
        connection_pool=pool,  # type: ignore[arg-type]
    )
    shared = RateLimiter(RedisRequests(storage), RedisBudgets(Redis.from_pool(pool), lease=lease))
    return SharedLimiter(shared, memory_limiter(), clock)


class SharedLimiter(Limiter):
    """Asks `shared`, and `alone` while that fails."""

    n_alone: int = 0
    """Limited requests that this process has counted for itself."""

    def __init__(self, shared: Limiter, alone: Limiter, clock: Callable[[], float]) -> None:
        self._shared = shared
        self._alone = alone
        self._clock = clock
        self._not_before: float | None = None
        """When to try again; None: the last attempt succeeded."""

    @override
    async def admit(self, grant: Grant, n_tokens: int) -> Reservation:
        if grant.limits == UNLIMITED:
            return NO_RESERVATION
        if self._may_try:
            try:
                reservation = await self._shared.admit(grant, n_tokens)
            except UNREACHABLE as error:
                self._failed(error)
            else:
                self._succeeded()
                return _Shared(reservation, self._failed)
        self.n_alone += 1
        return await self._alone.admit(grant, n_tokens)

    @override
    async def limit_state(self, grant: Grant) -> LimitState:
        if self._may_try:
            try:
                return await self._shared.limit_state(grant)
            except UNREACHABLE as error:
                self._failed(error)
        return await self._alone.limit_state(grant)

    @override
    async def aclose(self) -> None:
        await self._shared.aclose()
        await self._alone.aclose()

    @property
    def _may_try(self) -> bool:
        return self._not_before is None or self._clock() >= self._not_before

    def _failed(self, error: Exception) -> None:
        if self._not_before is None:
            log.warning("limits are not shared: Redis cannot be reached, each process counts alone", error=str(error))
        self._not_before = self._clock() + PAUSE

    def _succeeded(self) -> None:
        if self._not_before is not None:
            log.warning("limits are shared again")
        self._not_before = None


@dataclass(frozen=True, slots=True)
class _Shared(Reservation):
    """A reservation in Redis. If it cannot be settled, it lapses when its lease ends."""

    inner: Reservation
    on_failure: Callable[[Exception], None]

    @property
    @override
    def limit_state(self) -> LimitState:
        return self.inner.limit_state

    @override
    async def settle(self, n_tokens: int) -> None:
        try:
            await self.inner.settle(n_tokens)
        except UNREACHABLE as error:
            self.on_failure(error)
