"""The limits of keys, counted in memory and in Redis."""

import itertools
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.gateway.clock import Clock

from afterword.errors import InvalidRequest, LimitExceeded
from afterword.gateway.grant import Grant, KeyLimits
from afterword.gateway.interfaces import Allowance, Limiter, LimitState, Reservation
from afterword.gateway.limiter import memory_limiter
from afterword.gateway.limiter_shared import redis_limiter


def key(name: str = "k", /, **limits: int) -> Grant:
    return Grant(name, "acme", limits=KeyLimits(**limits))


@pytest.fixture(params=["memory", "redis"])
async def limiter(request: pytest.FixtureRequest, clock: Clock) -> AsyncIterator[Limiter]:
    """A limiter that has counted nothing; the clock is to be had as `clock`."""
    made: Limiter
    made = memory_limiter(clock) if request.param == "memory" else redis_limiter(request.getfixturevalue("redis_url"))
    yield made
    await made.aclose()


async def refusal(limiter: Limiter, grant: Grant, n_tokens: int) -> LimitExceeded:
    with pytest.raises(LimitExceeded) as caught:
        await limiter.admit(grant, n_tokens)
    return caught.value


async def test_a_key_without_limits_may_do_everything(limiter: Limiter) -> None:
    for _ in range(3):
        reservation = await limiter.admit(key(), 10**9)
        assert reservation.limit_state == LimitState()
        await reservation.settle(10**9)
    assert await limiter.limit_state(key()) == LimitState()


async def test_requests_are_counted_in_a_window_that_moves(limiter: Limiter, clock: Clock) -> None:
    grant = key(requests_per_minute=2)
    first = await limiter.admit(grant, 10)
    assert first.limit_state == LimitState(requests=Allowance(2, 1, 60.0))
    clock.advance(40)
    second = await limiter.admit(grant, 10)
    assert second.limit_state == LimitState(requests=Allowance(2, 0, 60.0))
    clock.advance(5)
    error = await refusal(limiter, grant, 10)
    assert str(error) == "This API key may send 2 requests a minute, and has sent 2. Please try again in 15s."
    assert (error.kind, error.retry_after) == ("requests", 15)
    assert await limiter.limit_state(grant) == LimitState(requests=Allowance(2, 0, 55.0))
    clock.advance(15.001)
    third = await limiter.admit(grant, 10)
    assert third.limit_state.requests == Allowance(2, 0, 60.0)
    for reservation in (first, second, third):
        await reservation.settle(0)


async def test_a_request_counts_whatever_becomes_of_it(limiter: Limiter) -> None:
    grant = key(requests_per_minute=1)
    await (await limiter.admit(grant, 10)).settle(0)
    assert (await refusal(limiter, grant, 10)).kind == "requests"


async def test_tokens_are_reserved_while_a_request_runs_and_what_it_did_not_use_is_given_back(
    limiter: Limiter, clock: Clock
) -> None:
    grant = key(tokens_per_minute=100)
    first = await limiter.admit(grant, 60)
    assert first.limit_state == LimitState(tokens=Allowance(100, 40, 60.0))
    error = await refusal(limiter, grant, 41)
    assert str(error) == (
        "This API key may use 100 tokens a minute: 0 are used, 60 are reserved for running requests, and this request "
        "may need 41. Please try again in 1s."
    )
    assert (error.kind, error.retry_after) == ("tokens", 1)
    await first.settle(10)
    assert await limiter.limit_state(grant) == LimitState(tokens=Allowance(100, 90, 61.0))
    second = await limiter.admit(grant, 90)
    assert second.limit_state.tokens == Allowance(100, 0, 60.0)
    await second.settle(90)
    clock.advance(61)
    assert await limiter.limit_state(grant) == LimitState(tokens=Allowance(100, 100, 0.0))


async def test_a_refusal_says_when_enough_tokens_will_have_left_the_window(limiter: Limiter, clock: Clock) -> None:
    grant = key(tokens_per_minute=100)
    for n_tokens in (10, 20, 30):
        await (await limiter.admit(grant, n_tokens)).settle(n_tokens)
        clock.advance(10)
    # 60 used: 10 leave 61 seconds after the start, 20 at 71, 30 at 81; it is 30 now.
    assert [(await refusal(limiter, grant, n_tokens)).retry_after for n_tokens in (41, 50, 51, 70, 71)] == [
        31,
        31,
        41,
        41,
        51,
    ]
    clock.advance(31)
    await (await limiter.admit(grant, 50)).settle(0)


async def test_a_request_over_the_whole_limit_is_told_that_waiting_does_not_help(limiter: Limiter) -> None:
    error = await refusal(limiter, key(tokens_per_minute=100, requests_per_minute=5), 101)
    assert str(error) == (
        "This request may need 101 tokens (each prompt, and max_tokens for each candidate), and this API key may use "
        "100 a minute: waiting does not help. Shorten the prompt or lower max_tokens."
    )
    assert (error.kind, error.retry_after) == ("tokens", None)


async def test_no_more_requests_run_at_once_than_the_key_may_have(limiter: Limiter) -> None:
    grant = key(concurrent_requests=2)
    first, second = [await limiter.admit(grant, 10) for _ in range(2)]
    error = await refusal(limiter, grant, 10)
    assert str(error) == (
        "This API key may have 2 requests running at once, and 2 are. Please try again when one has ended."
    )
    assert (error.kind, error.retry_after) == ("requests", 1)
    await first.settle(10)
    third = await limiter.admit(grant, 10)
    assert third.limit_state == LimitState()
    await second.settle(0)
    await third.settle(0)


async def test_requests_at_once_need_no_more_tokens_together_than_the_key_may_have(limiter: Limiter) -> None:
    grant = key(concurrent_tokens=100)
    first = await limiter.admit(grant, 60)
    error = await refusal(limiter, grant, 41)
    assert str(error) == (
        "The requests of this API key that run or wait may need 100 tokens together: those there are may need 60, and "
        "this one 41. Please try again when one has ended."
    )
    assert (error.kind, error.retry_after) == ("tokens", 1)
    second = await limiter.admit(grant, 40)
    await first.settle(60)
    await (await limiter.admit(grant, 60)).settle(60)
    await second.settle(1)


async def test_a_request_that_alone_needs_more_than_the_key_may_have_at_once_is_a_mistake(limiter: Limiter) -> None:
    grant = key(concurrent_tokens=100, requests_per_minute=2)
    with pytest.raises(InvalidRequest, match=r"may need 101 tokens .* together may need 100 at once") as caught:
        await limiter.admit(grant, 101)
    assert caught.value.param == "max_tokens"
    assert (await limiter.limit_state(grant)).requests == Allowance(2, 2, 0.0)


@pytest.mark.parametrize("limits", [{"concurrent_requests": 2}, {"concurrent_tokens": 20}])
async def test_when_to_come_back_is_when_one_can_be_expected_to_end(clock: Clock, limits: dict[str, int]) -> None:
    limiter, grant = memory_limiter(clock), key(**limits)
    for _ in range(60):
        running = await limiter.admit(grant, 10)
        clock.advance(30)
        await running.settle(10)
    for _ in range(2):
        await limiter.admit(grant, 10)
    assert (await refusal(limiter, grant, 10)).retry_after == 15


@pytest.mark.parametrize(
    ("limits", "n_tokens"),
    [
        pytest.param({"concurrent_requests": 1}, 10, id="places"),
        pytest.param({"concurrent_tokens": 100}, 95, id="tokens at once"),
        pytest.param({"tokens_per_minute": 100}, 95, id="tokens"),
        pytest.param({"tokens_per_minute": 100}, 101, id="tokens that never fit"),
    ],
)
async def test_a_request_refused_by_one_limit_counts_for_no_other(
    limiter: Limiter, limits: dict[str, int], n_tokens: int
) -> None:
    grant = key(requests_per_minute=2, **limits)
    running = await limiter.admit(grant, 10)
    await refusal(limiter, grant, n_tokens)
    await running.settle(0)
    assert (await limiter.limit_state(grant)).requests == Allowance(2, 1, 60.0)


async def test_a_request_refused_for_its_number_reserves_nothing(limiter: Limiter) -> None:
    grant = key(requests_per_minute=1, tokens_per_minute=100, concurrent_requests=1)
    await (await limiter.admit(grant, 10)).settle(0)
    for _ in range(3):
        assert (await refusal(limiter, grant, 100)).kind == "requests"
    assert (await limiter.limit_state(grant)).tokens == Allowance(100, 100, 0.0)


async def test_keys_do_not_count_for_each_other(limiter: Limiter) -> None:
    one, other = key("one", tokens_per_minute=10), key("other", tokens_per_minute=10)
    first, second = await limiter.admit(one, 10), await limiter.admit(other, 10)
    await first.settle(10)
    await second.settle(0)
    assert (await limiter.limit_state(one)).tokens == Allowance(10, 0, 61.0)
    assert (await limiter.limit_state(other)).tokens == Allowance(10, 10, 0.0)


@dataclass(frozen=True)
class Advance:
    seconds: float


@dataclass(frozen=True)
class Admit:
    n_tokens: int


@dataclass(frozen=True)
class Settle:
    which: int
    part: float


STEPS = st.lists(
    st.one_of(
        st.builds(Advance, st.sampled_from([0.0, 0.3, 1.0, 29.5, 30.0, 58.5, 59.5, 60.0, 61.0])),
        st.builds(Admit, st.sampled_from([1, 33, 50, 67, 100])),
        st.builds(Settle, st.integers(0, 2), st.sampled_from([0.0, 0.5, 1.0])),
    ),
    max_size=40,
)
LIMITS = KeyLimits(requests_per_minute=6, tokens_per_minute=100, concurrent_requests=3, concurrent_tokens=80)


class Account:
    """What a key did, written down by somebody else than the limiter."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.sent: list[float] = []
        self.used: list[tuple[float, int]] = []
        self.reserved: list[int] = []

    def n_sent(self) -> int:
        return sum(time > self.clock.now - 60 for time in self.sent)

    def n_used(self, window: float = 60) -> int:
        return sum(n for time, n in self.used if time > self.clock.now - window)

    def check_within(self, limits: KeyLimits) -> None:
        assert limits.requests_per_minute is not None
        assert limits.tokens_per_minute is not None
        assert limits.concurrent_requests is not None
        assert self.n_sent() <= limits.requests_per_minute
        assert self.n_used() + sum(self.reserved) <= limits.tokens_per_minute
        assert limits.concurrent_tokens is not None
        assert len(self.reserved) <= limits.concurrent_requests
        assert sum(self.reserved) <= limits.concurrent_tokens

    def has_reason(self, n_tokens: int) -> bool:
        """Whether a refusal is right: tokens count for a second longer at most, a request for no longer than 60."""
        return (
            len(self.reserved) == 3
            or sum(self.reserved) + n_tokens > 80
            or self.n_used(61) + sum(self.reserved) + n_tokens > 100
            or sum(time >= self.clock.now - 60 for time in self.sent) == 6
        )


async def play(limiter: Limiter, clock: Clock, steps: list[Advance | Admit | Settle], name: str) -> None:
    grant, account = Grant(name, None, limits=LIMITS), Account(clock)
    reservations: list[Reservation] = []
    for step in steps:
        match step:
            case Advance():
                clock.advance(step.seconds)
            case Admit():
                try:
                    reservations.append(await limiter.admit(grant, step.n_tokens))
                except (LimitExceeded, InvalidRequest):
                    assert account.has_reason(step.n_tokens)
                else:
                    account.sent.append(clock.now)
                    account.reserved.append(step.n_tokens)
            case Settle() if reservations:
                which = step.which % len(reservations)
                n_used = int(account.reserved.pop(which) * step.part)
                account.used.append((clock.now, n_used))
                await reservations.pop(which).settle(n_used)
        account.check_within(LIMITS)
    for reservation in reservations:
        await reservation.settle(0)


@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=STEPS)
async def test_no_window_ever_holds_more_than_the_limits(clock: Clock, steps: list[Advance | Admit | Settle]) -> None:
    await play(memory_limiter(clock), clock, steps, "k")


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=STEPS)
async def test_no_window_in_redis_ever_holds_more_than_the_limits(
    clock: Clock, redis_url: str, steps: list[Advance | Admit | Settle]
) -> None:
    """Two processes take turns."""
    async with AsyncExitStack() as stack:
        # The clock jumps minutes ahead, and no lease could be renewed in between.
        limiters = [redis_limiter(redis_url, lease=1e6) for _ in range(2)]
        for limiter in limiters:
            stack.push_async_callback(limiter.aclose)
        # Another key each time: what examples before this one did is in the same Redis.
        clock.advance(1000)
        await play(Alternating(limiters), clock, steps, f"k{clock.now}")
        assert [limiter.n_alone for limiter in limiters] == [0, 0]


class Alternating:
    """Hands each request to the next of several limiters."""

    n_alone = 0

    def __init__(self, limiters: Sequence[Limiter]) -> None:
        self._turns = itertools.cycle(limiters)

    async def admit(self, grant: Grant, n_tokens: int) -> Reservation:
        return await next(self._turns).admit(grant, n_tokens)

    async def limit_state(self, grant: Grant) -> LimitState:
        return await next(self._turns).limit_state(grant)

    async def aclose(self) -> None:
        """Whoever made the limiters closes them."""


@pytest.mark.parametrize("step", [-3600, 3600])
async def test_gate_08_a_wall_clock_that_is_set_changes_no_limit(clock: Clock, step: float) -> None:
    """`clock` is the wall clock here."""
    steady = Clock(5.0)
    limiter, grant = memory_limiter(steady), key(requests_per_minute=3, tokens_per_minute=100)
    for _ in range(3):
        await (await limiter.admit(grant, 30)).settle(30)
    clock.advance(step)
    error = await refusal(limiter, grant, 1)
    assert (error.kind, error.retry_after) == ("requests", 60)
    steady.advance(62)
    await (await limiter.admit(grant, 100)).settle(0)
