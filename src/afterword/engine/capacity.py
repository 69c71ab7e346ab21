"""How many sequences an engine may hold, or all engines of a vendor together: running in slots, or waiting for one."""

import math
from asyncio import Future, get_running_loop
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from threading import Lock

from afterword.engine.line import Claim, Line
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
        self._line: Line[_Waiting] = Line()

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
    async def slots(self, n: int, claim: Claim) -> AsyncIterator[None]:
        """Wait for `n` slots, in turn (line.py), and hold them. If `n` exceeds all slots, they run alone."""
        loop = get_running_loop()
        queued_at = loop.time()
        waiting = _Waiting(claim, n, loop.create_future())
        self._line.join(claim, waiting)
        self._admit()
        try:
            await waiting.admitted
            self.note_wait(loop.time() - queued_at)
            yield
        finally:
            # Cancelled while it waited: it holds no slots. Cancelled just after it was admitted: it does.
            if waiting.admitted.cancelled():
                self._line.leave(claim, waiting)
            else:
                self.n_running -= n
                self._line.give_back(claim, n)
            self._admit()

    def _admit(self) -> None:
        while (first := self._line.next()) is not None:
            # A cancelled entry is about to leave and to call this again. Who needs more than is free is not passed by.
            if first.admitted.cancelled() or (self.n_running > 0 and self.n_running + first.n > self.n_slots):
                return
            self.n_running += first.n
            self._line.take(first.claim, first.n)
            self._line.leave(first.claim, first)
            first.admitted.set_result(None)


@dataclass(frozen=True, slots=True, eq=False)
class _Waiting:
    """What waits for slots."""

    claim: Claim
    n: int
    admitted: Future[None]
