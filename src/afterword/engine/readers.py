"""Whom an engine works for: it takes prompts in, counts what is done, and tells every reader when the engine ends.

For every engine, whatever computes. Any thread.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from threading import Lock
from weakref import WeakSet

import structlog

from afterword.engine.base import EngineStats
from afterword.engine.mailbox import Mailbox, Said, deliver
from afterword.engine.room import Room
from afterword.errors import AfterwordError, EngineFailed

log = structlog.get_logger("afterword.engine")


@dataclass(slots=True)
class Counters:
    """What an engine has done since its start, named and counted as in `EngineStats`. One thread writes."""

    steps: int = 0
    prompt_tokens: int = 0
    prefill_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    cancelled: int = 0

    def add_prompt(self, n_tokens: int, n_cached: int) -> None:
        """A prompt is done, of whose tokens `n_cached` were not computed."""
        self.prompt_tokens += n_tokens
        self.prefill_tokens += n_tokens - n_cached
        self.cached_tokens += n_cached


class Readers:
    """The readers of one engine."""

    def __init__(self, room: Room, counters: Counters) -> None:
        self.room = room
        self.counters = counters
        self._lock = Lock()
        self._n_held = 0
        self._state = "ready"
        self._failure: AfterwordError | None = None
        self._mailboxes: WeakSet[Mailbox] = WeakSet()

    def enter(self, n_candidates: int) -> Mailbox:
        """Take in a prompt; the reader is on the event loop that runs. `leave` must follow for each candidate.

        Raises `Overloaded`, or `EngineFailed` once the engine has ended.
        """
        mailbox = Mailbox(asyncio.get_running_loop(), n_candidates)
        with self._lock:
            if self._failure is not None:
                # A new error: one that is raised again and again would collect every caller's frames.
                raise EngineFailed(str(self._failure)) from self._failure.__cause__
            self.room.enter(n_candidates)
            self._n_held += n_candidates
            # Under the lock: from here on, `end` reaches the reader.
            self._mailboxes.add(mailbox)
        return mailbox

    def leave(self, n_sequences: int) -> None:
        """That many sequences have ended, or will never begin."""
        self.room.leave(n_sequences)
        with self._lock:
            self._n_held -= n_sequences

    def end(self, state: str, failure: AfterwordError) -> None:
        """The engine is over, `state` says how: tell everybody who reads and everybody who comes.

        Only the first call counts.
        """
        with self._lock:
            if self._failure is not None:
                return
            self._state, self._failure = state, failure
            mailboxes = list(self._mailboxes)
        deliver((mailbox, failure) for mailbox in mailboxes)

    def stats(self, running: int, slots_idle: int = 0) -> EngineStats:
        """The engine's figures. Of the sequences that came and have not ended, at most `running` do not wait."""
        with self._lock:
            held = 0 if self._failure is not None else self._n_held
        running = min(running, held)
        return EngineStats(
            state=self._state,
            running=running,
            waiting=held - running,
            slots_free=max(0, self.room.n_places - running - slots_idle),
            slots_idle=slots_idle,
            queue_seconds=self.room.queue_seconds,
            **asdict(self.counters),
        )


@contextmanager
def telling(post: Callable[[Iterable[Said]], None]) -> Iterator[None]:
    """Posts whatever breaks the block, so that the reader hears of it. What is no `Exception` passes on as well."""
    try:
        yield
    except (asyncio.CancelledError, GeneratorExit):
        raise
    except BaseException as error:
        post([as_told(error, "The engine could not finish this completion; the server's log has the cause.")])
        if not isinstance(error, Exception):
            raise


def as_told(error: BaseException, what: str) -> AfterwordError:
    """`error` if it is meant for readers, else `EngineFailed` that says `what`. An engine's failure is logged."""
    told = error if isinstance(error, AfterwordError) else EngineFailed(what)
    if told is not error:
        told.__cause__ = error
    if type(told) is EngineFailed:
        # A log that cannot be written (its file is closed, its disk full) must not cost more requests.
        with suppress(Exception):
            log.error("engine failed", detail=str(told), exc_info=error)
    return told
