"""One asyncio task for each prompt of an engine, all on one event loop, and the clean-up however a task ends."""

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, Generic, Protocol, TypeVar

from afterword.engine.mailbox import EventOrError, Mailbox
from afterword.engine.tracker import RequestTracker, post_failures


class Job(Protocol):
    """One prompt from `generate` to its end."""

    mailbox: Mailbox

    @property
    def n_unfinished(self) -> int:
        """Candidates that have not ended."""
        ...


J = TypeVar("J", bound=Job)


class Tasks(Generic[J]):
    """Everything is called on the event loop."""

    def __init__(
        self,
        tracker: RequestTracker,
        *,
        run: Callable[[J], Coroutine[Any, Any, None]],
        post: Callable[[Mailbox, Iterable[EventOrError]], None],
        on_end: Callable[[J], None],
    ) -> None:
        """`run` completes a job. `post` takes the error if that fails. `on_end`: the job's task has ended."""
        self._tracker = tracker
        self._run_job = run
        self._post = post
        self._on_end = on_end
        self._tasks: dict[J, asyncio.Task[None]] = {}
        self._closed = False

    def start(self, job: J) -> None:
        """Begin with a job; with none after `aclose`, whose call may have come first from another thread."""
        if not self._closed:
            task = self._tasks[job] = asyncio.get_running_loop().create_task(self._run(job))
            # A callback, not the end of `_run`: a task that is cancelled before its first step never runs at all.
            task.add_done_callback(lambda _: self._ended(job))

    def cancel(self, job: J) -> None:
        """End a job that nobody reads, or that has nothing more to do. One that has ended stays as it is."""
        task = self._tasks.get(job)
        if task is not None:
            self._tracker.counters.cancelled += job.n_unfinished
            task.cancel()

    async def aclose(self) -> None:
        """End every job."""
        self._closed = True
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _run(self, job: J) -> None:
        with post_failures(lambda failure: self._post(job.mailbox, failure)):
            await self._run_job(job)

    def _ended(self, job: J) -> None:
        del self._tasks[job]
        self._on_end(job)
