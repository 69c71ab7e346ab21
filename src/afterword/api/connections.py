"""Limits on connections: how many, and for how long; which one is closed when there are too many.

A connection without a request under way is idle: it has sent nothing, or part of a head, or is kept alive. Knows
neither bytes nor requests. On the event loop.
"""

import asyncio
from collections import Counter
from dataclasses import dataclass
from typing import Protocol

import structlog

log = structlog.get_logger("afterword.http")

LOG_SECONDS = 10.0
"""Seconds for which closed connections are logged together, in one line."""


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """The limits. Times are in seconds."""

    most: int
    """Connections at once, at least 1."""
    head: float
    """From the first moment of a connection, or the first byte of a later request, until the head has come."""
    stall: float
    """How long a client may read nothing of its answer."""


class Connection(Protocol):
    """A connection, as far as it is known here."""

    def drop(self) -> None:
        """Close it at once: no request is under way."""
        ...


class Connections:
    """The open connections of one server."""

    def __init__(self, limits: ConnectionLimits) -> None:
        self.limits = limits
        self._n_open = 0
        self._idle: dict[Connection, None] = {}
        """In the order in which they became so."""
        self._closed: Counter[str] = Counter()
        """Since the last line, by reason."""
        self._quiet = False
        """A line was written a moment ago."""

    def opened(self, newcomer: Connection) -> bool:
        """Add an idle connection. If there are too many, the one idle for longest is closed; False if none is idle.

        `closed` must follow in any case.
        """
        self._n_open += 1
        if self._n_open > self.limits.most:
            oldest = next(iter(self._idle), None)
            if oldest is None:
                self.log_closed("refused, because all others have a request under way")
                return False
            self.log_closed("idle for longest, closed for a new one")
            del self._idle[oldest]
            oldest.drop()
        self._idle[newcomer] = None
        return True

    def closed(self, connection: Connection) -> None:
        """It is closed."""
        self._n_open -= 1
        self._idle.pop(connection, None)

    def busy(self, connection: Connection) -> None:
        """A request is under way on it."""
        self._idle.pop(connection, None)

    def idle(self, connection: Connection) -> None:
        """No request is under way on it any more."""
        self._idle[connection] = None

    def log_closed(self, reason: str) -> None:
        """Log that a connection is closed for that reason, at once or together with others."""
        self._closed[reason] += 1
        if not self._quiet:
            self._write()

    def _write(self) -> None:
        self._quiet = bool(self._closed)
        if self._quiet:
            log.warning("connections closed", why=dict(self._closed), n_open=self._n_open, limit=self.limits.most)
            self._closed.clear()
            asyncio.get_running_loop().call_later(LOG_SECONDS, self._write)
