"""How many sequences an engine may hold, or all engines of a vendor together: running in slots, or waiting for one."""

import math
from asyncio import Future, get_running_loop
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from threading import Lock

from afterword.errors import NeverFits, Overloaded

WAIT_MEMORY = 0.9
"""Weight of the past in the average waiting time."""


class Capacity:
    """Counts sequences against a limit, and queues for slots. Any thread, except `slots`: one event loop."""

    def __init__(self, n_slots: int, max_waiting: int) -> None:
        """`max_waiting`: sequences beyond the slots before `Overloaded`."""
        self.n_slots = n_slots
        self.n_running = 0
        """Sequences inside `slots`."""
        self.queue_seconds = 0.0
        """Recent average of the time a sequence waited for its slot."""
        self._max_waiting = max_waiting
        self._n_held = 0
        self._lock = Lock()
        self._queue: deque[tuple[Future[None], int]] = deque()
        """Waiting for slots, and for how many."""

    def check(self, n: int) -> None:
        """Raise `Overloaded` if `n` sequences more exceed the limit, `NeverFits` if they do alone; takes nothing."""
        limit = self.n_slots + self._max_waiting
        if n > limit:
            raise NeverFits(n, n_slots=self.n_slots, max_waiting=self._max_waiting)
        if self._n_held + n > limit:
            raise Overloaded(
                f"The engine holds {self._n_held} sequences and has room for {limit}; {n} more do not fit. "
                "Try again later.",
                retry_after=max(1, math.ceil(self.queue_seconds)),
            )

    def acquire(self, n: int) -> None:
        """Add `n` sequences. Raises `Overloaded`."""
        with self._lock:
            self.check(n)
            self._n_held += n

    def release(self, n: int) -> None:
        """That many sequences have ended."""
        with self._lock:
            self._n_held -= n

    def note_wait(self, seconds: float) -> None:
        """A sequence has got its slot after so long."""
        self.queue_seconds = WAIT_MEMORY * self.queue_seconds + (1 - WAIT_MEMORY) * seconds

    @asynccontextmanager
    async def slots(self, n: int) -> AsyncIterator[None]:
        """Wait for `n` slots, first come, first served, and hold them. If `n` exceeds all slots, they run alone."""
        loop = get_running_loop()
        queued_at = loop.time()
        admitted = loop.create_future()
        self._queue.append((admitted, n))
        self._admit()
        try:
            await admitted
            self.note_wait(loop.time() - queued_at)
            yield
        finally:
            # Cancelled while it waited: it holds no slots. Cancelled just after it was admitted: it does.
            if admitted.cancelled():
                self._queue.remove((admitted, n))
            else:
                self.n_running -= n
            self._admit()

    def _admit(self) -> None:
        while self._queue:
            admitted, n = self._queue[0]
            # A cancelled entry is about to remove itself and to call this again.
            if admitted.cancelled() or (self.n_running > 0 and self.n_running + n > self.n_slots):
                return
            self._queue.popleft()
            self.n_running += n
            admitted.set_result(None)
