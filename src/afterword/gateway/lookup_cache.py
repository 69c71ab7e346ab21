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


class LookupCache(Generic[T]):
    """Values by name; None for a name that does not exist. Belongs to one event loop.

    Requests that ask for the same name at once share one query.
    """

    def __init__(self, ask: Callable[[str], T | None], threads: Executor, clock: Callable[[], float]) -> None:
        """`ask` blocks, runs in `threads`, and may raise `DatabaseDown`."""
        self._ask = ask
        self._threads = threads
        self._clock = clock
        self._known: OrderedDict[str, _Answer[T]] = OrderedDict()
        self._unknown: OrderedDict[str, _Answer[T]] = OrderedDict()
        self._pending: dict[str, asyncio.Future[T | None]] = {}
        self._is_down = False
        self._next_try = 0.0

    async def get(self, name: str) -> T | None:
        """The value of `name`, a second old at most, or an older one while the database is down.

        Raises `Overloaded` if there is none.
        """
        old = self._known.get(name, self._unknown.get(name))
        if old is not None and self._clock() - old.time < FRESH_SECONDS:
            return old.value
        if name not in self._pending and self._is_down and self._clock() < self._next_try:
            return self._stale(old)
        pending = self._pending[name] if name in self._pending else self._begin(name)
        try:
            async with asyncio.timeout(None if old is None else REFRESH_SECONDS):
                # Shielded: a time-out here must not cancel the query for others who wait for it.
                return await asyncio.shield(pending)
        except (TimeoutError, DatabaseDown):
            return self._stale(old)

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
            if not self._is_down:
                structlog.get_logger().warning("keys cannot be looked up", reason=str(error))
            self._is_down = True
            self._next_try = self._clock() + PAUSE_SECONDS
        elif error is None:
            self._is_down = False
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
