"""Requests within the last minute, counted by the `limits` library in moving windows: any 60 seconds hold at most the
limit. In memory for one process, in Redis for several.

Tokens are not counted this way: the library knows neither amounts that are reserved first and corrected later nor a
way to keep many without an entry for each. They are in `limiter_budget.py`.
"""

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from limits import RateLimitItemPerMinute
from limits.aio.storage import RedisStorage
from limits.aio.strategies import MovingWindowRateLimiter as SharedMovingWindow
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
    """Windows of one process, in memory. By a clock that is never set: the library's storage goes by the wall clock."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """`clock`: seconds from any start, never going back."""
        self._clock = clock
        self._sent: dict[str, deque[float]] = {}
        """When each request within the window came, by key, oldest first."""

    @override
    async def add(self, key: str, limit: int) -> tuple[bool, RequestWindow]:
        if (await self.look(key, limit)).n >= limit:
            return False, await self.look(key, limit)
        self._sent.setdefault(key, deque()).append(self._clock())
        return True, await self.look(key, limit)

    @override
    async def look(self, key: str, limit: int) -> RequestWindow:
        now, sent = self._clock(), self._sent.get(key, deque())
        while sent and sent[0] + WINDOW < now:
            sent.popleft()
        if not sent:
            self._sent.pop(key, None)
            return RequestWindow(0, 0.0, 0.0)
        return _window(len(sent), sent[0], sent[-1], now)


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
        return True, _window(n, oldest, time.time(), time.time())

    @override
    async def look(self, key: str, limit: int) -> RequestWindow:
        name = RateLimitItemPerMinute(limit).key_for(key)
        oldest, n = await self._storage.get_moving_window(name, limit, WINDOW)
        # In a window of the last request alone, the oldest is the newest of all.
        newest, _ = (oldest, n) if n < 2 else await self._storage.get_moving_window(name, 1, WINDOW)
        return _window(n, oldest, newest, time.time())


def _window(n: int, oldest: float, newest: float, now: float) -> RequestWindow:
    if n == 0:
        return RequestWindow(0, 0.0, 0.0)
    return RequestWindow(n, _wait(oldest, now), _wait(newest, now))


def _wait(sent: float, now: float) -> float:
    """Until a request has left the window. No longer than that, though a clock may have been set back since."""
    return min(max(0.0, sent + WINDOW - now), float(WINDOW))
