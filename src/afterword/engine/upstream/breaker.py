"""A circuit breaker: whether a server that has failed may be asked again.

Closed: it may. After some failures in a row it opens: nobody asks for a while. Then, or as soon as a health check
succeeds, it is half open: one request may try. Success closes it, failure opens it for twice as long. Knows no
connection; the time comes from outside. Used from one event loop.
"""

import math
from collections.abc import Callable
from typing import Literal

from afterword.config.vendor import LONGEST_REST

BreakerState = Literal["closed", "open", "half_open"]


class Breaker:
    """The breaker of one upstream."""

    def __init__(self, failures: int, rest: float, now: Callable[[], float]) -> None:
        """It opens after so many `failures` in a row, for `rest` seconds.

        `now`: seconds from any start, never going back.
        """
        self._most_failures = failures
        self._first_rest = self._next_rest = rest
        self._now = now
        self._n_failures = 0
        """In a row."""
        self._opens_until: float | None = None
        self._is_tried = False
        """Half open, and a request is on its way."""

    @property
    def state(self) -> BreakerState:
        """What it is now; an open one turns half open by itself."""
        if self._opens_until is None:
            return "closed"
        return "open" if self._now() < self._opens_until else "half_open"

    @property
    def wait(self) -> int:
        """Whole seconds until a request may pass, 0 if one may now."""
        if self._opens_until is None:
            return 0
        left = self._opens_until - self._now()
        if left > 0:
            return math.ceil(left)
        return 1 if self._is_tried else 0

    def enter(self) -> None:
        """A request goes out; every one must be followed by `succeed`, `fail` or `abandon`. Only where `wait` is 0."""
        assert self.wait == 0, "the breaker lets nobody through"
        self._is_tried = self._opens_until is not None

    def succeed(self) -> None:
        """A request was answered."""
        self._n_failures = 0
        self._next_rest = self._first_rest
        self._opens_until = None
        self._is_tried = False

    def abandon(self) -> None:
        """A request has ended without showing whether the server works."""
        self._is_tried = False

    def fail(self) -> None:
        """A request has failed, and the server is to blame."""
        self._n_failures += 1
        if self._opens_until is None:
            if self._n_failures >= self._most_failures:
                self._open()
        elif self._is_tried:
            self._open()

    def heal(self) -> None:
        """A health check has succeeded: one request may try at once."""
        if self._opens_until is not None:
            self._opens_until = min(self._opens_until, self._now())

    def _open(self) -> None:
        rest = min(self._next_rest, LONGEST_REST)
        self._next_rest = 2 * rest
        self._opens_until = self._now() + rest
        self._is_tried = False
