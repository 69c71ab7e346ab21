"""Answers of the database, asked for in threads and remembered for a short while: the event loop never waits."""

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
"""How long an answer is taken for current."""

REFRESH_SECONDS = 0.5
"""How long a request waits for a current answer while there is an old one."""

STALE_SECONDS = 300.0
"""How long an old answer holds while the database is down."""

PAUSE_SECONDS = 1.0
"""How long a database that is down is left alone."""

MAX_KNOWN = 10_000
MAX_UNKNOWN = 1_000
"""Answers that are remembered. Names that nothing has are apart: trying many of them must not displace the others."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Answer(Generic[T]):
    value: T | None
    time: float
    """When it was asked for."""


class Recall(Generic[T]):
    """Answers by name; None for a name that nothing has. Belongs to one event loop.

    However many ask for a name at once, the database is asked once.
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

    async def of(self, name: str) -> T | None:
        """The answer for `name`, a second old at most, or an older one while the database is down.

        Raises `Overloaded` if there is none.
        """
        old = self._known.get(name, self._unknown.get(name))
        if old is not None and self._clock() - old.time < FRESH_SECONDS:
            return old.value
        if name not in self._pending and self._is_down and self._clock() < self._next_try:
            return self._make_do(old)
        pending = self._pending[name] if name in self._pending else self._begin(name)
        try:
            async with asyncio.timeout(None if old is None else REFRESH_SECONDS):
                # Shielded, because others may be waiting for the same answer.
                return await asyncio.shield(pending)
        except (TimeoutError, DatabaseDown):
            return self._make_do(old)

    def correct(self, name: str, value: T) -> None:
        """Change what is remembered for `name`, because it is known better; its age stays."""
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

    def _make_do(self, old: _Answer[T] | None) -> T | None:
        if old is None or self._clock() - old.time > STALE_SECONDS:
            raise Overloaded("API keys cannot be looked up at the moment. Please try again.", retry_after=1)
        return old.value
