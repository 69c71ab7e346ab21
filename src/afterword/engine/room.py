"""How many sequences an engine holds, or all engines of a vendor together: who may come in, and whose turn it is."""

import math
from asyncio import Future, get_running_loop
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from threading import Lock

from afterword.errors import Overloaded

WAIT_MEMORY = 0.9
"""Weight of the past in the average waiting time."""


class Room:
    """Places for sequences that run, and a limit to those that wait. Any thread, but `turn`: one event loop."""

    def __init__(self, n_places: int, max_waiting: int) -> None:
        """`max_waiting`: sequences beyond the places before `Overloaded`."""
        self.n_places = n_places
        self.n_running = 0
        """Sequences that have their `turn`."""
        self.queue_seconds = 0.0
        """Recent average of the time a sequence waited for its place."""
        self._limit = n_places + max_waiting
        self._n_held = 0
        self._lock = Lock()
        self._line: deque[tuple[Future[None], int]] = deque()
        """Who waits for a turn, and for how many places."""

    def reserve(self, n: int) -> None:
        """Raise `Overloaded` if `n` sequences more do not fit; keeps nothing."""
        if self._n_held + n > self._limit:
            raise Overloaded(
                f"The engine holds {self._n_held} sequences and has room for {self._limit}; {n} more do not fit. "
                "Try again later.",
                retry_after=max(1, math.ceil(self.queue_seconds)),
            )

    def enter(self, n: int) -> None:
        """Take in `n` sequences. Raises `Overloaded`."""
        with self._lock:
            self.reserve(n)
            self._n_held += n

    def leave(self, n: int) -> None:
        """That many sequences have ended."""
        with self._lock:
            self._n_held -= n

    def waited(self, seconds: float) -> None:
        """A sequence has got its place after so long."""
        self.queue_seconds = WAIT_MEMORY * self.queue_seconds + (1 - WAIT_MEMORY) * seconds

    @asynccontextmanager
    async def turn(self, n: int) -> AsyncIterator[None]:
        """Wait until `n` sequences may run together. First come, first served; more than there are places run alone."""
        loop = get_running_loop()
        came_at = loop.time()
        admitted = loop.create_future()
        self._line.append((admitted, n))
        self._admit()
        try:
            await admitted
            self.waited(loop.time() - came_at)
            yield
        finally:
            if admitted.cancelled():
                self._line.remove((admitted, n))
            else:
                self.n_running -= n
            self._admit()

    def _admit(self) -> None:
        while self._line:
            admitted, n = self._line[0]
            if admitted.cancelled() or (self.n_running > 0 and self.n_running + n > self.n_places):
                # Whoever was cancelled is about to take itself out.
                return
            self._line.popleft()
            self.n_running += n
            admitted.set_result(None)
