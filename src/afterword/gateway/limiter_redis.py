"""Budgets in Redis, for all processes that share it. The rules are those of `limiter_budget.py`; so are the figures.

Each key has a sorted set of its running requests (`number:tokens`, scored by when their lease ends) and a hash of the
tokens it has used (by the second in which they leave the window). A process renews the
leases of its own requests; those of a process that has died run out. Each process sends its own time, so clocks must
agree. Where one was set back, what lies too far ahead is counted from now on: for one window more, not until that time.
"""

import asyncio
import secrets
import time
from collections import Counter
from collections.abc import Awaitable, Sequence
from contextlib import suppress
from typing import cast

import structlog
from redis.asyncio import Redis
from redis.exceptions import RedisError
from typing_extensions import override

from afterword.gateway.limiter_budget import Bounds, Budget, Budgets, RunningRequest, leaving_second
from afterword.gateway.limiter_requests import WINDOW

LEASE = 30.0
"""Seconds for which the requests of a process that has died still count, at most."""

RENEWALS_PER_LEASE = 3

# A script runs atomically in Redis: no other process can take tokens between its check and its update.
_TAKE = """
local now, n_tokens = tonumber(ARGV[1]), tonumber(ARGV[2])
local max_running, max_tokens, at_once = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[9])
redis.call('zremrangebyscore', KEYS[1], '-inf', now)
for _, member in ipairs(redis.call('zrangebyscore', KEYS[1], '(' .. ARGV[6], '+inf')) do
    redis.call('zadd', KEYS[1], ARGV[6], member)
end
local running = redis.call('zrange', KEYS[1], 0, -1)
local reserved, used, latest, leaving = 0, 0, tonumber(ARGV[8]), {}
for _, member in ipairs(running) do
    reserved = reserved + tonumber(string.match(member, ':(%d+)$'))
end
local fields = redis.call('hgetall', KEYS[2])
for i = 1, #fields, 2 do
    local second, n = tonumber(fields[i]), tonumber(fields[i + 1])
    if second > latest then
        redis.call('hdel', KEYS[2], fields[i])
        redis.call('hincrby', KEYS[2], ARGV[8], n)
    elseif second <= now then
        redis.call('hdel', KEYS[2], fields[i])
    end
    if second > now then
        used = used + n
        leaving[#leaving + 1] = math.min(second, latest)
        leaving[#leaving + 1] = n
    end
end
local taken = 0
if ARGV[5] ~= '' and (max_running < 0 or #running < max_running)
        and (at_once < 0 or reserved + n_tokens <= at_once)
        and (max_tokens < 0 or used + reserved + n_tokens <= max_tokens) then
    redis.call('zadd', KEYS[1], tonumber(ARGV[6]), ARGV[5])
    redis.call('expire', KEYS[1], ARGV[7])
    taken = 1
end
return {taken, #running, reserved, leaving}
"""

_SETTLE = """
redis.call('zrem', KEYS[1], ARGV[1])
if tonumber(ARGV[2]) > 0 then
    redis.call('hincrby', KEYS[2], ARGV[3], ARGV[2])
    redis.call('expire', KEYS[2], ARGV[4])
end
"""

UNBOUNDED = -1
KEPT = 2 * WINDOW
"""Seconds for which Redis keeps the tokens of a key that is no longer used."""

log = structlog.get_logger("afterword.gateway")


class RedisBudgets(Budgets):
    """Budgets in Redis. Raises redis-py's errors. Used from one event loop, which has to run `aclose`."""

    def __init__(self, client: Redis, *, lease: float = LEASE) -> None:
        """Takes over `client`; connects when it is first needed. `lease` is in seconds."""
        self._client = client
        self._lease = lease
        self._take = client.register_script(_TAKE)
        self._settle = client.register_script(_SETTLE)
        self._held: dict[RunningRequest, None] = {}
        self._renewing: asyncio.Task[None] | None = None

    @override
    async def take(self, key: str, n_tokens: int, bounds: Bounds) -> tuple[RunningRequest | None, Budget]:
        request = RunningRequest(key, secrets.token_hex(8), n_tokens)
        taken, budget = await self._run_take(key, n_tokens, bounds, _member(request))
        if not taken:
            return None, budget
        self._held[request] = None
        if self._renewing is None:
            self._renewing = asyncio.create_task(self._renew_until_cancelled())
        return request, budget

    @override
    async def look(self, key: str) -> Budget:
        return (await self._run_take(key, 0, Bounds(None, None), ""))[1]

    @override
    async def settle(self, request: RunningRequest, n_used: int) -> None:
        # First: from here on the lease must not be renewed, even if Redis does not answer.
        del self._held[request]
        await self._settle(_names(request.key), [_member(request), n_used, leaving_second(time.time()), KEPT])

    @override
    async def aclose(self) -> None:
        if self._renewing is not None:
            self._renewing.cancel()
            with suppress(asyncio.CancelledError):
                await self._renewing
        await self._client.aclose()

    async def renew(self) -> None:
        """Renew the leases of all requests that run here."""
        until = time.time() + self._lease
        async with self._client.pipeline(transaction=False) as pipeline:
            for request in self._held:
                running, _ = _names(request.key)
                # xx: only if it is still there. A request that is settled at this moment must not come back.
                pipeline.zadd(running, {_member(request): until}, xx=True)
                pipeline.expire(running, self._expiry)
            await pipeline.execute()

    async def _renew_until_cancelled(self) -> None:
        while True:
            await asyncio.sleep(self._lease / RENEWALS_PER_LEASE)
            try:
                await self.renew()
            except (RedisError, OSError) as error:
                log.warning("leases of running requests could not be renewed", error=str(error))

    async def _run_take(self, key: str, n_tokens: int, bounds: Bounds, member: str) -> tuple[bool, Budget]:
        now = time.time()
        arguments: list[str | int | float] = [
            now,
            n_tokens,
            UNBOUNDED if bounds.running is None else bounds.running,
            UNBOUNDED if bounds.tokens is None else bounds.tokens,
            member,
            now + self._lease,
            self._expiry,
            leaving_second(now),
            UNBOUNDED if bounds.at_once is None else bounds.at_once,
        ]
        found = await cast("Awaitable[tuple[int, int, int, list[int]]]", self._take(_names(key), arguments))
        taken, n_running, n_reserved, leaving = found
        return taken == 1, Budget(now, n_running, n_reserved, _pairs(leaving))

    @property
    def _expiry(self) -> int:
        """Whole seconds after which Redis may forget the running requests of a key: their leases have ended."""
        return int(self._lease) + 1


def _names(key: str) -> list[str]:
    """The running requests and the used tokens; the braces keep both on one node of a cluster."""
    return [f"afterword:{{{key}}}:running", f"afterword:{{{key}}}:used"]


def _member(request: RunningRequest) -> str:
    return f"{request.number}:{request.n_tokens}"


def _pairs(flat: Sequence[int]) -> dict[int, int]:
    """The tokens of each second; one may be listed more than once."""
    sums: Counter[int] = Counter()
    for second, n in zip(flat[::2], flat[1::2], strict=True):
        sums[second] += n
    return sums
