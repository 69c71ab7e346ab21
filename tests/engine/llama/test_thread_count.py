from collections.abc import Callable
from itertools import pairwise

import pytest

from afterword.engine.llama.thread_count import LONGEST_PAUSE, LOOK, TRIES, WINDOW, ThreadCount

STEP = 0.01


class Machine:
    """Processors of which other programs have some, and an engine that computes in steps of 10 ms."""

    def __init__(self, processors: int, *, taken: float = 0, least: int = 1, says_idle: bool = True) -> None:
        self.processors = processors
        self.taken = taken
        self.now = self.idle = 0.0
        self.threads = ThreadCount(processors, least=least, idle=self._idle if says_idle else lambda: None)

    def _idle(self) -> float:
        return self.idle

    def compute(self, seconds: float) -> int:
        """Returns the number of threads at the end."""
        return self.until(lambda: False, seconds)

    def until(self, done: Callable[[], bool], seconds: float) -> int:
        for _ in range(round(seconds / STEP)):
            had = min(self.threads.n, self.processors - self.taken)
            self.idle += STEP * (self.processors - self.taken - had)
            self.threads.note(self.now, self.now + STEP, STEP * had)
            self.now += STEP
            if done():
                break
        return self.threads.n

    def rest(self, seconds: float) -> None:
        """Time in which the engine has nothing to compute."""
        self.now += seconds
        self.idle += seconds * (self.processors - self.taken)


@pytest.mark.parametrize(
    ("processors", "taken", "expected"),
    [(2, 0, 2), (2, 0.2, 2), (2, 1, 1), (2, 1.7, 1), (8, 0.4, 8), (8, 1, 7), (8, 4.9, 3), (8, 7.5, 1), (1, 0.6, 1)],
)
def test_there_are_as_many_threads_as_processors_are_left(processors: int, taken: float, expected: int) -> None:
    assert Machine(processors, taken=taken).compute(2 * WINDOW) == expected


def test_they_are_fewer_still_when_more_is_taken() -> None:
    machine = Machine(8, taken=1)
    assert machine.compute(2 * WINDOW) == 7
    machine.taken = 3
    assert machine.compute(2 * WINDOW) == 5


def test_one_slow_call_changes_nothing() -> None:
    threads = ThreadCount(2)
    threads.note(0.0, WINDOW / 4, WINDOW / 4)
    threads.note(WINDOW / 4, WINDOW, 2 * WINDOW)
    assert threads.n == 2


def test_never_fewer_than_numbers_allow() -> None:
    assert Machine(4, taken=3, least=4).compute(1.0) == 4


def test_all_are_back_when_the_processors_are() -> None:
    machine = Machine(2, taken=1)
    assert machine.compute(60.0) == 1
    machine.taken = 0
    assert machine.until(lambda: machine.threads.n == 2, 2 * LOOK) == 2
    assert machine.compute(60.0) == 2


def test_none_is_tried_while_nothing_is_idle() -> None:
    machine = Machine(2, taken=1)
    machine.compute(2 * WINDOW)
    assert machine.until(lambda: machine.threads.n == 2, 100.0) == 1


def test_what_the_engine_itself_leaves_idle_does_not_count() -> None:
    machine = Machine(2, taken=1)
    machine.compute(2 * WINDOW)
    for _ in range(200):
        machine.rest(0.03)
        assert machine.compute(STEP) == 1


def test_where_the_system_does_not_say_they_are_tried_the_more_seldom_the_longer_they_are_missing() -> None:
    machine, tried = Machine(2, taken=1, says_idle=False), []
    for _ in range(7):
        machine.until(lambda: machine.threads.n == 1, 1.0)
        machine.until(lambda: machine.threads.n == 2, 100.0)
        tried.append(machine.now)
    gaps = [later - earlier for earlier, later in pairwise(tried)]
    assert gaps == pytest.approx([2, 4, 8, 16, LONGEST_PAUSE, LONGEST_PAUSE], abs=3 * WINDOW)


def test_tries_that_take_long_are_seldom() -> None:
    threads = ThreadCount(2)
    threads.note(0.0, 2.0, 2.0)
    assert threads.n == 1
    threads.note(2.0, 2.0 + 2.0 / TRIES - STEP, 2.0 / TRIES)
    assert threads.n == 1
    threads.note(20.0, 20.0 + 2 * STEP, 2 * STEP)
    assert threads.n == 2
