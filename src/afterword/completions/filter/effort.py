"""How much computing the search for patterns may take, on the event loop and in a thread."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")

PATTERN_SECONDS = 0.1
"""CPU time of one pattern at most, for each piece of text. An ordinary search takes microseconds."""


@dataclass(frozen=True, slots=True)
class Effort:
    """What searches may take of the thread that they run on."""

    seconds: float
    """CPU time of all patterns together."""
    concurrent: bool
    """Other threads run meanwhile. It costs more than a quick search takes."""


ON_LOOP = Effort(0.002, concurrent=False)
IN_THREAD = Effort(math.inf, concurrent=True)


def within(until: float, search: Callable[[float], T]) -> T:
    """What `search` finds before this thread's CPU time is `until`; its argument is its time-out.

    Raises `TimeoutError`. The package measures the CPU time of the whole process, so while a model computes a search
    may time out before it has begun. It is then repeated with twice the time-out.
    """
    left = seconds = until - time.thread_time()
    while left > 0:
        try:
            return search(seconds)
        except TimeoutError:
            seconds *= 2
            left = until - time.thread_time()
    raise TimeoutError
