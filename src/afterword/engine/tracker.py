"""The prompts that an engine has accepted: how many sequences run and wait, what was counted, how the engine ended.

For every engine, whatever computes. Any thread.
"""

import asyncio
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, fields
from itertools import zip_longest
from operator import attrgetter
from threading import Lock
from weakref import WeakSet

import structlog

from afterword.engine.base import ROW_BOUNDS, EngineStats
from afterword.engine.capacity import Capacity
from afterword.engine.mailbox import EventOrError, Mailbox, deliver
from afterword.errors import AfterwordError, EngineClosed, EngineFailed

log = structlog.get_logger("afterword.engine")


@dataclass(slots=True)
class Counters:
    """What an engine has done since its start, named and counted as in `EngineStats`. One thread writes."""

    steps: int = 0
    rows: int = 0
    step_rows: tuple[int, ...] = ()
    prompt_tokens: int = 0
    prefill_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    cancelled: int = 0
    draft_tokens: int = 0
    accepted_draft_tokens: int = 0

    def add_step(self, n_rows: int) -> None:
        """A step has begun that computes so many rows."""
        self.steps += 1
        self.rows += n_rows
        before = self.step_rows if self.step_rows else (0,) * (len(ROW_BOUNDS) + 1)
        place = bisect_left(ROW_BOUNDS, n_rows)
        # Made anew: another thread reads it.
        self.step_rows = (*before[:place], before[place] + 1, *before[place + 1 :])

    def figures(self) -> tuple[int | tuple[int, ...], ...]:
        """All of them, as they are given to make a `Counters`."""
        return _ALL(self)

    def plus(self, other: "Counters") -> "Counters":
        """Both together."""
        step_rows = tuple(map(sum, zip_longest(self.step_rows, other.step_rows, fillvalue=0)))
        figures = {name: getattr(self, name) + getattr(other, name) for name in _FIGURES}
        return Counters(**figures, step_rows=step_rows)

    def add_prompt(self, n_tokens: int, n_cached: int) -> None:
        """A prompt is done, of whose tokens `n_cached`, at most all, were not computed."""
        self.prompt_tokens += n_tokens
        self.prefill_tokens += n_tokens - n_cached
        self.cached_tokens += n_cached


_ALL = attrgetter(*(field.name for field in fields(Counters)))

_FIGURES = tuple(field.name for field in fields(Counters) if field.name != "step_rows")


class RequestTracker:
    """Accepts prompts for one engine, and fails all of them when the engine ends."""

    def __init__(self, capacity: Capacity, counters: Counters) -> None:
        self.capacity = capacity
        self.counters = counters
        self._lock = Lock()
        self._n_held = 0
        self._state = "ready"
        self._failure: AfterwordError | None = None
        # Weak: a mailbox whose reader has dropped it needs no failure, and must not stay in memory.
        self._mailboxes: WeakSet[Mailbox] = WeakSet()

    def add(self, n_candidates: int, n_sequences: int | None = None) -> Mailbox:
        """Accept a prompt; its mailbox is read on the event loop that runs. `remove` must follow for each sequence.

        `n_sequences`: None where each candidate is one.

        Raises `Overloaded`, or `EngineFailed` once the engine has ended.
        """
        mailbox = Mailbox(asyncio.get_running_loop(), n_candidates)
        n_sequences = n_candidates if n_sequences is None else n_sequences
        with self._lock:
            if self._failure is not None:
                # A new error: one that is raised again and again would collect every caller's frames.
                if isinstance(self._failure, EngineClosed):
                    raise EngineClosed
                raise EngineFailed(str(self._failure)) from self._failure.__cause__
            self.capacity.acquire(n_sequences)
            self._n_held += n_sequences
            # Under the lock, so that `end` either reaches this mailbox or has made this call raise.
            self._mailboxes.add(mailbox)
        return mailbox

    def remove(self, n_sequences: int) -> None:
        """That many sequences have ended, or will never begin."""
        self.capacity.release(n_sequences)
        with self._lock:
            self._n_held -= n_sequences

    def end(self, state: str, failure: AfterwordError) -> None:
        """The engine is over, `state` says how: `failure` goes to every mailbox, and `add` raises from now on.

        Only the first call counts.
        """
        with self._lock:
            if self._failure is not None:
                return
            self._state, self._failure = state, failure
            mailboxes = list(self._mailboxes)
        deliver((mailbox, failure) for mailbox in mailboxes)

    def stats(self, running: int, slots_idle: int = 0) -> EngineStats:
        """The engine's figures. Of the accepted sequences that have not ended, at most `running` do not wait."""
        with self._lock:
            held = 0 if self._failure is not None else self._n_held
        # The engine's own count may be a step older than `remove`.
        running = min(running, held)
        return EngineStats(
            state=self._state,
            running=running,
            waiting=held - running,
            slots_free=max(0, self.capacity.n_slots - running - slots_idle),
            slots_idle=slots_idle,
            queue_seconds=self.capacity.queue_seconds,
            **asdict(self.counters),
        )


@contextmanager
def post_failures(post: Callable[[Iterable[EventOrError]], None]) -> Iterator[None]:
    """Posts whatever breaks the block, so that its reader gets it. What is no `Exception` is raised as well."""
    try:
        yield
    except (asyncio.CancelledError, GeneratorExit):
        raise
    except BaseException as error:
        post([public_error(error, "The engine could not finish this completion; the server's log has the cause.")])
        if not isinstance(error, Exception):
            raise


def public_error(error: BaseException, message: str) -> AfterwordError:
    """`error` itself if its text is meant for clients, else `EngineFailed(message)` caused by it, which is logged."""
    public = error if isinstance(error, AfterwordError) else EngineFailed(message)
    if public is not error:
        public.__cause__ = error
    # Not its subclasses: what an upstream did is logged by the API, under the request's id.
    if type(public) is EngineFailed:
        # A log that cannot be written (its file is closed, its disk full) must not cost more requests.
        with suppress(Exception):
            log.error("engine failed", detail=str(public), exc_info=error)
    return public
