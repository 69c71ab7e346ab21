"""A circuit breaker: whether a server that has failed gets requests again.

Closed: it gets them. After some failures in a row the breaker opens: it gets none for a while. Then, or as soon as a
health check succeeds, it is half open: one request goes out as a trial. If that succeeds the breaker closes, if it
fails it opens for twice as long. Knows no connection; the time comes from outside. Used from one event loop.
"""

import math
from collections.abc import Callable
from typing import Literal

from afterword.config.vendor import LONGEST_COOLDOWN

BreakerState = Literal["closed", "open", "half_open"]


class Breaker:
    """The breaker of one upstream."""

    def __init__(self, failures: int, cooldown: float, now: Callable[[], float]) -> None:
        """Opens after so many `failures` in a row, for `cooldown` seconds at first.

        `now`: seconds from any start, never going back.
        """
        self._most_failures = failures
        self._first_cooldown = self._next_cooldown = cooldown
        self._now = now
        self._n_failures = 0
        """In a row."""
        self._opens_until: float | None = None
        self._trial_running = False
        """Half open, and the trial request is under way."""

    @property
    def state(self) -> BreakerState:
        """An open breaker becomes half open when its time is over."""
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
        return 1 if self._trial_running else 0

    def enter(self) -> None:
        """A request goes out; `succeed`, `fail` or `abandon` must follow. Only where `wait` is 0."""
        assert self.wait == 0, "the breaker lets no request through"
        self._trial_running = self._opens_until is not None

    def succeed(self) -> None:
        """A request was answered."""
        self._n_failures = 0
        self._next_cooldown = self._first_cooldown
        self._opens_until = None
        self._trial_running = False

    def abandon(self) -> None:
        """A request has ended without showing whether the server works; after `succeed` or `fail` this does nothing."""
        self._trial_running = False

    def fail(self) -> None:
        """A request has failed through the server's fault."""
        self._n_failures += 1
        if self._opens_until is None:
            if self._n_failures >= self._most_failures:
                self._open()
        elif self._trial_running:
            self._open()

    def note_healthy(self) -> None:
        """A health check has succeeded: a trial request may go out at once."""
        if self._opens_until is not None:
            self._opens_until = min(self._opens_until, self._now())

    def _open(self) -> None:
        cooldown = min(self._next_cooldown, LONGEST_COOLDOWN)
        self._next_cooldown = 2 * cooldown
        self._opens_until = self._now() + cooldown
        self._trial_running = False
