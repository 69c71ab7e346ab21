"""A key's running requests and its tokens: what those requests may still use, and what was used within the last minute.

A request reserves the most that it can use, and what it has used counts instead once it ends. Used tokens are
kept by the second in which they leave the window, so a key costs at most `WINDOW` + 1 numbers; they count for a minute
and up to a second more.
"""

import itertools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from typing_extensions import override

from afterword.gateway.limiter_requests import WINDOW


@dataclass(frozen=True, slots=True)
class Bounds:
    """What a key may have. None: no limit."""

    running: int | None
    """Requests at once."""
    tokens: int | None
    """Per minute."""
    at_once: int | None = None
    """Tokens that the running requests may use."""


@dataclass(frozen=True, slots=True)
class RunningRequest:
    """One running request."""

    key: str
    number: str
    """Differs from those of all other requests of the key, in all processes."""
    n_tokens: int
    """Tokens it may use at most."""


@dataclass(frozen=True, slots=True)
class Budget:
    """What a key had reserved and used at a moment."""

    now: float
    """Seconds by the clock of whoever counts."""
    n_running: int
    n_reserved: int
    """Tokens that the running requests may use."""
    leaving: Mapping[int, int]
    """Used tokens by the second in which they leave the window; all later than `now`."""

    @property
    def n_used(self) -> int:
        """Tokens used within the window."""
        return sum(self.leaving.values())

    @property
    def all_free(self) -> float:
        """Seconds until all that has been used has left the window."""
        return max(self.leaving, default=self.now) - self.now

    def fits(self, n_tokens: int, bounds: Bounds) -> bool:
        """Whether a request of at most `n_tokens` keeps within all bounds."""
        may_start = bounds.running is None or self.n_running < bounds.running
        may_start = may_start and (bounds.at_once is None or self.n_reserved + n_tokens <= bounds.at_once)
        return may_start and (bounds.tokens is None or self.n_used + self.n_reserved + n_tokens <= bounds.tokens)

    def seconds_until(self, n_used: int) -> float | None:
        """Seconds until no more than `n_used` of the used tokens are left in the window; None: never."""
        if n_used < 0:
            return None
        left, wait = self.n_used, 0.0
        for second in sorted(self.leaving):
            if left <= n_used:
                break
            left, wait = left - self.leaving[second], second - self.now
        return wait


class Budgets(Protocol):
    """The budgets of all keys. On the event loop, which none of it blocks."""

    async def take(self, key: str, n_tokens: int, bounds: Bounds) -> tuple[RunningRequest | None, Budget]:
        """Enter a request of at most `n_tokens`; None if the bounds do not allow it. And the budget without it."""
        ...

    async def look(self, key: str) -> Budget:
        """The key's budget now."""
        ...

    async def settle(self, request: RunningRequest, n_used: int) -> None:
        """The request has ended: count what it used instead of what it reserved."""
        ...

    async def aclose(self) -> None:
        """Close the storage."""
        ...


def leaving_second(now: float) -> int:
    """The Unix second in which what is used `now` leaves the window: the first after a whole minute."""
    return math.floor(now) + WINDOW + 1


@dataclass(slots=True)
class _Account:
    """One key."""

    running: dict[str, int] = field(default_factory=dict)
    """Tokens reserved, by the request's number."""
    leaving: dict[int, int] = field(default_factory=dict)


class MemoryBudgets(Budgets):
    """Budgets of one process, in memory."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """`clock`: seconds from any start, never going back."""
        self._clock = clock
        self._accounts: dict[str, _Account] = {}
        self._numbers = itertools.count()

    @override
    async def take(self, key: str, n_tokens: int, bounds: Bounds) -> tuple[RunningRequest | None, Budget]:
        budget = await self.look(key)
        if not budget.fits(n_tokens, bounds):
            return None, budget
        request = RunningRequest(key, str(next(self._numbers)), n_tokens)
        self._accounts.setdefault(key, _Account()).running[request.number] = n_tokens
        return request, budget

    @override
    async def look(self, key: str) -> Budget:
        now = self._clock()
        account = self._accounts.get(key)
        if account is None:
            return Budget(now, 0, 0, {})
        account.leaving = {second: n for second, n in account.leaving.items() if second > now}
        return Budget(now, len(account.running), sum(account.running.values()), dict(account.leaving))

    @override
    async def settle(self, request: RunningRequest, n_used: int) -> None:
        account = self._accounts[request.key]
        del account.running[request.number]
        if n_used > 0:
            second = leaving_second(self._clock())
            account.leaving[second] = account.leaving.get(second, 0) + n_used

    @override
    async def aclose(self) -> None:
        pass
