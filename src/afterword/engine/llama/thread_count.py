"""How many threads compute: fewer while other programs have the processors. Engine thread only.

A step has hundreds of barriers, and a thread that waits at one spins. Where a busy program makes two of them share a
processor, each step takes as many slices of the system's scheduler as it has barriers: a hundred times as long. One
thread less only takes a share. That processors are missing is seen from what the process has had of them: threads that
spin take all that they can get. That there are enough again is seen from what the system says is idle.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

WINDOW: Final = 0.05
"""Seconds of computing that are judged together."""

MISSING: Final = 0.5
"""Processors that threads must have lacked on average to be fewer."""

LOOK: Final = 1.0
"""Seconds of computing after which it is looked whether there are processors again."""

LONGEST_PAUSE: Final = 32.0
"""Seconds of computing between two tries with more threads, at most."""

TRIES: Final = 0.2
"""Share of the time that tries which fail may take: beside many programs a single step takes a second."""


@dataclass(slots=True)
class _Span:
    """Some time that is judged together."""

    began: float
    idle: float | None
    """Processor seconds that were idle when it began."""
    computed: float = 0.0
    """Seconds in calls."""
    processors: float = 0.0
    """Processor seconds of the process in them."""


class ThreadCount:
    """The number of threads for the next call."""

    def __init__(self, most: int, *, least: int = 1, idle: Callable[[], float | None] = lambda: None) -> None:
        """`least`: never fewer; as many as `most` where numbers may depend on how many there are.

        `idle`: processor seconds that nobody used so far; None: the system does not say, and more threads are tried.
        """
        assert 1 <= least <= most
        self.n = most
        self._most = most
        self._least = least
        self._idle = idle
        self._window = _Span(0.0, None)
        self._fewer = _Span(0.0, None)
        """Since there are fewer threads, or since the last look."""
        self._look_after = LOOK
        self._pause = LOOK
        self._good = 0.0
        """Seconds of computing with all threads in which none was missing."""

    def note(self, began: float, ended: float, processor_seconds: float) -> None:
        """A call with `n` threads ran from one moment to the other; the process had so much of all processors."""
        for span in (self._window, self._fewer):
            span.computed += ended - began
            span.processors += processor_seconds
        if self._window.computed >= WINDOW:
            self._judge(self._window, ended)
            self._window = _Span(ended, None)
        if self.n < self._most and self._fewer.computed >= self._look_after:
            self._look(self._fewer, ended)
            self._window = _Span(ended, None)

    def _judge(self, window: _Span, now: float) -> None:
        missing = self.n - window.processors / window.computed
        if missing < MISSING:
            self._good = self._good + window.computed if self.n == self._most else 0.0
            if self._good >= LOOK:
                self._pause = LOOK
        elif self.n > self._least:
            self.n = max(self._least, self.n - max(1, round(missing)))
            self._good = 0.0
            self._look_after = min(max(self._pause, window.computed / TRIES), LONGEST_PAUSE)
            self._pause = min(2 * self._pause, LONGEST_PAUSE)
            self._fewer = _Span(now, self._idle())

    def _look(self, span: _Span, now: float) -> None:
        """Have all threads compute if as many processors were idle, besides those that the process left idle itself."""
        idle = self._idle()
        elapsed = now - span.began
        if idle is not None and span.idle is not None:
            free = (idle - span.idle - self.n * (elapsed - span.computed)) / elapsed
        else:
            free = float(self._most)
        if free > self._most - self.n - MISSING:
            self.n = self._most
        self._look_after = LOOK
        self._fewer = _Span(now, idle)
