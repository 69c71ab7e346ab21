"""A task for each prompt of an engine, all on one event loop, and what follows when one ends, however that happens."""

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, Generic, Protocol, TypeVar

from afterword.engine.mailbox import Mailbox, Said
from afterword.engine.readers import Readers, telling


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
        readers: Readers,
        *,
        work: Callable[[J], Coroutine[Any, Any, None]],
        post: Callable[[Mailbox, Iterable[Said]], None],
        leave: Callable[[J], None],
    ) -> None:
        """`work` completes a job. `post` takes what its reader is told if that fails. `leave`: a job is over."""
        self._readers = readers
        self._work = work
        self._post = post
        self._leave = leave
        self._tasks: dict[J, asyncio.Task[None]] = {}
        self._closed = False

    def start(self, job: J) -> None:
        """Begin with a job; with none after `aclose`, whose call may have come first from another thread."""
        if not self._closed:
            task = self._tasks[job] = asyncio.get_running_loop().create_task(self._run(job))
            # Not in the task: one that is cancelled before its first turn never runs at all.
            task.add_done_callback(lambda _: self._over(job))

    def cancel(self, job: J) -> None:
        """End a job whose reader has left, or that has nothing more to do; one that is over stays as it is."""
        task = self._tasks.get(job)
        if task is not None:
            self._readers.counters.cancelled += job.n_unfinished
            task.cancel()

    async def aclose(self) -> None:
        """End every job."""
        self._closed = True
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _run(self, job: J) -> None:
        with telling(lambda said: self._post(job.mailbox, said)):
            await self._work(job)

    def _over(self, job: J) -> None:
        del self._tasks[job]
        self._leave(job)
