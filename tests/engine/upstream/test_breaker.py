"""The circuit breaker: closed, open, half open, by a clock that the test moves."""

from dataclasses import dataclass

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from afterword.engine.upstream.breaker import Breaker

FAILURES, COOLDOWN = 3, 10.0


@dataclass
class Clock:
    now: float = 0.0

    def __call__(self) -> float:
        return self.now


def opened() -> tuple[Breaker, Clock]:
    clock = Clock()
    breaker = Breaker(FAILURES, COOLDOWN, clock)
    for _ in range(3):
        breaker.enter()
        breaker.fail()
    return breaker, clock


def try_and_fail(breaker: Breaker) -> None:
    breaker.enter()
    breaker.fail()


def test_failures_in_a_row_open_it() -> None:
    breaker = Breaker(FAILURES, COOLDOWN, Clock())
    for _ in range(2):
        try_and_fail(breaker)
    assert (breaker.state, breaker.wait) == ("closed", 0)
    try_and_fail(breaker)
    assert (breaker.state, breaker.wait) == ("open", 10)


def test_a_success_between_failures_starts_the_count_again() -> None:
    breaker = Breaker(FAILURES, COOLDOWN, Clock())
    for _ in range(5):
        try_and_fail(breaker)
        try_and_fail(breaker)
        breaker.enter()
        breaker.succeed()
    assert breaker.state == "closed"


def test_one_request_tries_after_the_rest() -> None:
    breaker, clock = opened()
    clock.now = 9.5
    assert (breaker.state, breaker.wait) == ("open", 1)
    clock.now = 10.0
    assert (breaker.state, breaker.wait) == ("half_open", 0)
    breaker.enter()
    assert breaker.wait == 1


def test_each_failed_trial_doubles_the_rest_up_to_a_limit() -> None:
    breaker, clock = opened()
    waits = []
    for _ in range(2000):
        clock.now += breaker.wait
        try_and_fail(breaker)
        waits.append(breaker.wait)
    assert waits == [20, 40, 80, 160] + [300] * 1996


def test_a_first_rest_beyond_the_limit_is_the_limit() -> None:
    breaker = Breaker(1, 1000.0, Clock())
    try_and_fail(breaker)
    assert breaker.wait == 300


def test_a_good_trial_closes_it_and_forgets() -> None:
    breaker, clock = opened()
    clock.now += 10
    breaker.enter()
    breaker.succeed()
    assert (breaker.state, breaker.wait) == ("closed", 0)
    for _ in range(3):
        try_and_fail(breaker)
    assert breaker.wait == 10


def test_a_trial_that_tells_nothing_leaves_room_for_another() -> None:
    breaker, clock = opened()
    clock.now += 10
    breaker.enter()
    breaker.abandon()
    assert (breaker.state, breaker.wait) == ("half_open", 0)


def test_a_good_health_check_lets_one_try_at_once() -> None:
    breaker, _ = opened()
    breaker.note_healthy()
    assert (breaker.state, breaker.wait) == ("half_open", 0)


def test_health_of_a_closed_one_changes_nothing() -> None:
    breaker = Breaker(FAILURES, COOLDOWN, Clock())
    breaker.note_healthy()
    assert breaker.state == "closed"


def test_nobody_passes_an_open_one() -> None:
    breaker, _ = opened()
    with pytest.raises(AssertionError):
        breaker.enter()


class AnyOrder(RuleBasedStateMachine):
    """Whatever happens, in any order: at most one request is a trial, and no cooldown is longer than the longest."""

    @initialize()
    def start(self) -> None:
        self.clock = Clock()
        self.breaker = Breaker(FAILURES, COOLDOWN, self.clock)
        self.n_trying = 0

    @rule(quarters=st.integers(0, 200))
    def wait(self, quarters: int) -> None:
        self.clock.now += quarters / 4

    @precondition(lambda self: self.breaker.wait == 0)
    @rule()
    def enter(self) -> None:
        if self.breaker.state == "half_open":
            assert self.n_trying == 0
            self.n_trying = 1
        self.breaker.enter()

    @rule()
    def fail(self) -> None:
        self.breaker.fail()
        if self.breaker.state == "open":
            self.n_trying = 0

    @rule()
    def succeed(self) -> None:
        self.breaker.succeed()
        self.n_trying = 0
        assert self.breaker.wait == 0

    @rule()
    def abandon(self) -> None:
        self.breaker.abandon()
        self.n_trying = 0

    @rule()
    def heal(self) -> None:
        self.breaker.note_healthy()
        assert self.breaker.state != "open"

    @invariant()
    def rests_are_limited(self) -> None:
        assert 0 <= self.breaker.wait <= 300


TestAnyOrder = AnyOrder.TestCase
