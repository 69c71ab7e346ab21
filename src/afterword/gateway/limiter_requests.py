"""Requests within the last minute, counted by the `limits` library in moving windows: any 60 seconds hold at most the
limit. In memory for one process, in Redis for several.

Tokens are not counted this way: the library knows neither amounts that are reserved first and corrected later nor a
way to keep many without an entry for each. They are in `limiter_budget.py`.
"""

import time
from dataclasses import dataclass
from typing import Protocol

from limits import RateLimitItemPerMinute
from limits.aio.storage import RedisStorage
from limits.aio.strategies import MovingWindowRateLimiter as SharedMovingWindow
from limits.storage import MemoryStorage
from limits.strategies import MovingWindowRateLimiter
from typing_extensions import override

WINDOW = 60
"""Seconds."""


@dataclass(frozen=True, slots=True)
class RequestWindow:
    """Requests within the last minute."""

    n: int
    next_free: float
    """Seconds until the oldest has left the window; 0 if there is none."""
    all_free: float
    """Seconds until the newest has."""


class RequestWindows(Protocol):
    """The windows of all keys; `limit` is the key's own. On the event loop, which none of it blocks."""

    async def add(self, key: str, limit: int) -> tuple[bool, RequestWindow]:
        """Count one request, and return the window after it; False, having counted nothing, if it is full."""
        ...

    async def look(self, key: str, limit: int) -> RequestWindow:
        """The window now."""
        ...


class MemoryRequests(RequestWindows):
    """Windows of one process, in memory."""

    def __init__(self) -> None:
        # The library's storage for coroutines starts a thread for each key; this one only takes locks.
        self._storage = MemoryStorage()
        self._limiter = MovingWindowRateLimiter(self._storage)

    @override
    async def add(self, key: str, limit: int) -> tuple[bool, RequestWindow]:
        added = self._limiter.hit(RateLimitItemPerMinute(limit), key)
        return added, await self.look(key, limit)

    @override
    async def look(self, key: str, limit: int) -> RequestWindow:
        name = RateLimitItemPerMinute(limit).key_for(key)
        oldest, n = self._storage.get_moving_window(name, limit, WINDOW)
        return _window(n, oldest, self._storage.events[name][0].atime if n > 0 else oldest)


class RedisRequests(RequestWindows):
    """Windows of all processes that share a Redis; their clocks must agree. Raises redis-py's errors."""

    def __init__(self, storage: RedisStorage) -> None:
        self._storage = storage
        self._limiter = SharedMovingWindow(storage)

    @override
    async def add(self, key: str, limit: int) -> tuple[bool, RequestWindow]:
        item = RateLimitItemPerMinute(limit)
        if not await self._limiter.hit(item, key):
            return False, await self.look(key, limit)
        # The newest is this one, which saves a query.
        oldest, n = await self._storage.get_moving_window(item.key_for(key), limit, WINDOW)
        return True, _window(n, oldest, time.time())

    @override
    async def look(self, key: str, limit: int) -> RequestWindow:
        name = RateLimitItemPerMinute(limit).key_for(key)
        oldest, n = await self._storage.get_moving_window(name, limit, WINDOW)
        # In a window of the last request alone, the oldest is the newest of all.
        newest, _ = (oldest, n) if n < 2 else await self._storage.get_moving_window(name, 1, WINDOW)
        return _window(n, oldest, newest)


def _window(n: int, oldest: float, newest: float) -> RequestWindow:
    if n == 0:
        return RequestWindow(0, 0.0, 0.0)
    now = time.time()
    return RequestWindow(n, max(0.0, oldest + WINDOW - now), max(0.0, newest + WINDOW - now))
