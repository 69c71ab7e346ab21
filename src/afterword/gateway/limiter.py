"""The limits of keys: requests and tokens a minute, requests and tokens at once (docs/rules.md#key-limits).

Owns the rules and their sentences; `limiter_requests.py` and `limiter_budget.py` count. For each key

    tokens used within the last minute + tokens reserved by running requests <= tokens a minute

holds whenever a request is admitted, and after it as long as none uses more than it reserved, which only a vendor's own
count of its tokens can show (docs/rules.md#key-limits). A refused request is not counted; one that was admitted counts
as a request however it ends.
"""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

from typing_extensions import override

from afterword.errors import InvalidRequest, LimitExceeded
from afterword.gateway.grant import UNLIMITED, Grant
from afterword.gateway.interfaces import Allowance, Limiter, LimitState, Reservation
from afterword.gateway.limiter_budget import Bounds, Budget, Budgets, MemoryBudgets, RunningRequest
from afterword.gateway.limiter_requests import WINDOW, MemoryRequests, RequestWindow, RequestWindows
from afterword.gateway.unlimited import NO_RESERVATION

PAST = 0.9
"""Weight of the past in the average duration of a request."""


class RateLimiter(Limiter):
    """Holds each key to its limits. Also raises what its storage raises."""

    n_alone = 0

    def __init__(self, requests: RequestWindows, budgets: Budgets, clock: Callable[[], float] = time.monotonic) -> None:
        """`clock`: seconds, never going back, by which requests are timed."""
        self._requests = requests
        self._budgets = budgets
        self._durations = _Durations(clock)

    @override
    async def admit(self, grant: Grant, n_tokens: int) -> Reservation:
        if grant.limits == UNLIMITED:
            return NO_RESERVATION
        key, limits = _key(grant), grant.limits
        bounds = Bounds(limits.concurrent_requests, limits.tokens_per_minute, limits.concurrent_tokens)
        if bounds.at_once is not None and n_tokens > bounds.at_once:
            raise _larger_than(n_tokens, bounds.at_once)
        if bounds.tokens is not None and n_tokens > bounds.tokens:
            raise _never_fits(n_tokens, bounds.tokens)
        request, budget = await self._budgets.take(key, n_tokens, bounds)
        if request is None:
            raise _over_bounds(budget, n_tokens, bounds, self._durations)
        try:
            # Last, because a request that was counted cannot be uncounted.
            requests = await self._add_request(key, limits.requests_per_minute)
        except BaseException:
            await self._budgets.settle(request, 0)
            raise
        state = LimitState(requests, _tokens(budget, n_tokens, bounds))
        return _Counted(self._budgets, request, self._durations, self._durations.clock(), state)

    @override
    async def limit_state(self, grant: Grant) -> LimitState:
        limits, requests, tokens = grant.limits, None, None
        if limits.requests_per_minute is not None:
            sent = await self._requests.look(_key(grant), limits.requests_per_minute)
            requests = _requests(sent, limits.requests_per_minute)
        if limits.tokens_per_minute is not None:
            tokens = _tokens(await self._budgets.look(_key(grant)), 0, Bounds(None, limits.tokens_per_minute))
        return LimitState(requests, tokens)

    @override
    async def aclose(self) -> None:
        await self._budgets.aclose()

    async def _add_request(self, key: str, limit: int | None) -> Allowance | None:
        if limit is None:
            return None
        added, sent = await self._requests.add(key, limit)
        if not added:
            raise _out_of_requests(limit, sent)
        return _requests(sent, limit)


def memory_limiter(clock: Callable[[], float] = time.monotonic) -> RateLimiter:
    """Limits that this process alone counts, by a clock that never goes back (docs/rules.md#key-limits)."""
    return RateLimiter(MemoryRequests(clock), MemoryBudgets(clock), clock)


@dataclass(slots=True)
class _Durations:
    """How long requests with limits took here."""

    clock: Callable[[], float]
    average: float = 1.0
    """Seconds, the latest weighing most."""

    def note(self, seconds: float) -> None:
        """One has ended after so long."""
        self.average = PAST * self.average + (1 - PAST) * seconds

    def until_one_ends(self, n_running: int) -> int:
        """Whole seconds until the next of so many can be expected to end."""
        return _whole(self.average / max(1, n_running))


@dataclass(frozen=True, slots=True)
class _Counted(Reservation):
    """A reservation in `budgets`."""

    budgets: Budgets
    request: RunningRequest
    durations: _Durations
    started: float
    limit_state: LimitState

    @override
    async def settle(self, n_tokens: int) -> None:
        self.durations.note(self.durations.clock() - self.started)
        # They may be more than were reserved: what a vendor counts is its own business.
        await self.budgets.settle(self.request, n_tokens)


def _key(grant: Grant) -> str:
    assert grant.key_id is not None, "only stored keys have limits, and they have ids"
    return grant.key_id


def _requests(sent: RequestWindow, limit: int) -> Allowance:
    return Allowance(limit, max(0, limit - sent.n), sent.all_free)


def _tokens(budget: Budget, n_more: int, bounds: Bounds) -> Allowance | None:
    """`n_more` are reserved in addition to `budget`. Reserved tokens are counted as if they were used now."""
    if bounds.tokens is None:
        return None
    n_reserved = budget.n_reserved + n_more
    reset = budget.all_free if n_reserved == 0 else float(WINDOW)
    return Allowance(bounds.tokens, max(0, bounds.tokens - budget.n_used - n_reserved), reset)


def _never_fits(n_tokens: int, limit: int) -> LimitExceeded:
    return LimitExceeded(
        f"This request may need {n_tokens} tokens (each prompt, and max_tokens for each candidate), and this API key "
        f"may use {limit} a minute: waiting does not help. Shorten the prompt or lower max_tokens.",
        kind="tokens",
        retry_after=None,
    )


def _larger_than(n_tokens: int, limit: int) -> InvalidRequest:
    return InvalidRequest(
        f"This request may need {n_tokens} tokens (each prompt, and max_tokens for each candidate), and all requests "
        f"of this API key together may need {limit} at once. Shorten the prompt, or lower max_tokens or n.",
        param="max_tokens",
        code="integer_above_max_value",
    )


def _over_bounds(budget: Budget, n_tokens: int, bounds: Bounds, durations: _Durations) -> LimitExceeded:
    if bounds.running is not None and budget.n_running >= bounds.running:
        return LimitExceeded(
            f"This API key may have {bounds.running} requests running at once, and {budget.n_running} are. Please try "
            "again when one has ended.",
            kind="requests",
            retry_after=durations.until_one_ends(budget.n_running),
        )
    if bounds.at_once is not None and budget.n_reserved + n_tokens > bounds.at_once:
        return LimitExceeded(
            f"The requests of this API key that run or wait may need {bounds.at_once} tokens together: those there are "
            f"may need {budget.n_reserved}, and this one {n_tokens}. Please try again when one has ended.",
            kind="tokens",
            retry_after=durations.until_one_ends(budget.n_running),
        )
    assert bounds.tokens is not None
    wait = budget.seconds_until(bounds.tokens - budget.n_reserved - n_tokens)
    # If the running requests alone exceed the bounds, it is unknown when they end.
    seconds = 1 if wait is None else _whole(wait)
    return LimitExceeded(
        f"This API key may use {bounds.tokens} tokens a minute: {budget.n_used} are used, {budget.n_reserved} are "
        f"reserved for running requests, and this request may need {n_tokens}. Please try again in {seconds}s.",
        kind="tokens",
        retry_after=seconds,
    )


def _out_of_requests(limit: int, sent: RequestWindow) -> LimitExceeded:
    seconds = _whole(sent.next_free)
    return LimitExceeded(
        f"This API key may send {limit} requests a minute, and has sent {sent.n}. Please try again in {seconds}s.",
        kind="requests",
        retry_after=seconds,
    )


def _whole(seconds: float) -> int:
    return max(1, math.ceil(seconds))
