"""A cache of database look-ups, which run in threads: the event loop never blocks."""

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

import structlog

from afterword.errors import Overloaded
from afterword.gateway.database import DatabaseDown

FRESH_SECONDS = 1.0
"""Age up to which an answer is current."""

REFRESH_SECONDS = 0.5
"""How long a request waits for a current answer if there is an old one."""

FIRST_SECONDS = 5.0
"""How long a request waits for an answer if there is no old one."""

STALE_SECONDS = 300.0
"""Age up to which an old answer is used while the database is down."""

PAUSE_SECONDS = 1.0
"""Time after a failure in which the database is not asked."""

MAX_KNOWN = 10_000
MAX_UNKNOWN = 1_000
"""Entries kept. Names that do not exist have their own limit: trying many of them must not evict the others."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Answer(Generic[T]):
    value: T | None
    time: float
    """When it was asked for."""


class Outage:
    """Whether the database answers, as far as those know who ask it. On one event loop."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.clock = clock
        self.since: float | None = None
        """By the clock: since when no question was answered; None: the latest one was."""
        self._next_try = 0.0

    @property
    def rests(self) -> bool:
        """A question has just failed: no other is asked for a moment."""
        return self.since is not None and self.clock() < self._next_try

    def failed(self, reason: str) -> None:
        """A question was not answered."""
        if self.since is None:
            structlog.get_logger().warning("keys cannot be looked up", reason=reason)
            self.since = self.clock()
        self._next_try = self.clock() + PAUSE_SECONDS

    def over(self) -> None:
        """One was."""
        if self.since is not None:
            structlog.get_logger().info("keys are looked up again")
        self.since = None


class LookupCache(Generic[T]):
    """Values by name; None for a name that does not exist. Belongs to one event loop.

    Requests that ask for the same name at once share one query.
    """

    def __init__(self, ask: Callable[[str], T | None], threads: Executor, outage: Outage) -> None:
        """`ask` blocks, runs in `threads`, and may raise `DatabaseDown`."""
        self._ask = ask
        self._threads = threads
        self._outage = outage
        self._clock = outage.clock
        self._known: OrderedDict[str, _Answer[T]] = OrderedDict()
        self._unknown: OrderedDict[str, _Answer[T]] = OrderedDict()
        self._pending: dict[str, asyncio.Future[T | None]] = {}

    async def get(self, name: str) -> T | None:
        """The value of `name`, a second old at most, or an older one while the database is down.

        Raises `Overloaded` if there is none.
        """
        old = self._known.get(name, self._unknown.get(name))
        if old is not None and self._clock() - old.time < FRESH_SECONDS:
            return old.value
        if self._outage.rests:
            return self._stale(old)
        pending = self._pending[name] if name in self._pending else self._begin(name)
        seconds = FIRST_SECONDS if old is None else REFRESH_SECONDS
        # Not cancelled by a time-out here: others may wait for it too.
        await asyncio.wait((pending,), timeout=seconds)
        if not pending.done():
            self._outage.failed(f"no answer within {seconds:g} s")
            return self._stale(old)
        return self._stale(old) if isinstance(pending.exception(), DatabaseDown) else pending.result()

    def update(self, name: str, value: T) -> None:
        """Replace the cached value of `name`, if there is one; its age stays."""
        old = self._known.get(name)
        if old is not None:
            self._known[name] = replace(old, value=value)

    def _begin(self, name: str) -> "asyncio.Future[T | None]":
        asked = self._clock()
        future = asyncio.get_running_loop().run_in_executor(self._threads, self._ask, name)
        self._pending[name] = future
        future.add_done_callback(lambda done: self._take(name, asked, done))
        return future

    def _take(self, name: str, asked: float, done: "asyncio.Future[T | None]") -> None:
        del self._pending[name]
        if done.cancelled():
            return
        error = done.exception()
        if isinstance(error, DatabaseDown):
            self._outage.failed(str(error))
        elif error is None:
            self._outage.over()
            self._remember(name, _Answer(done.result(), asked))

    def _remember(self, name: str, answer: _Answer[T]) -> None:
        self._known.pop(name, None)
        self._unknown.pop(name, None)
        answers, most = (self._unknown, MAX_UNKNOWN) if answer.value is None else (self._known, MAX_KNOWN)
        answers[name] = answer
        if len(answers) > most:
            answers.popitem(last=False)

    def _stale(self, old: _Answer[T] | None) -> T | None:
        if old is None or self._clock() - old.time > STALE_SECONDS:
            raise Overloaded("API keys cannot be looked up at the moment. Please try again.", retry_after=1)
        return old.value
