"""Where work is done whose cost grows with what a client has sent, so that it holds nobody up.

Small bodies are worked on where they come in, on the event loop: it takes milliseconds at most. Larger ones are worked
on in threads, and the largest in a thread one after another, so that a few of them leave the others room. What waits
for a thread is dropped when its client leaves. What lets no other thread run, one call of the JSON parser for instance,
is bounded by limits of its own (intake.py).
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from typing import TypeVar

from starlette.types import Receive

from afterword.api.disconnect import unless_client_leaves

T = TypeVar("T")

SMALL = 20_000
"""Bytes up to which a thread would cost more than it saves."""

LARGE = 1024 * 1024
"""Bytes from which bodies wait for each other."""


class Lanes:
    """One for each application. On the event loop."""

    def __init__(self) -> None:
        # A thread goes on with what it has begun, whoever waits for it: only with one thread is it one after another.
        self._large = ThreadPoolExecutor(1, thread_name_prefix="large body")

    async def run(self, n_bytes: int, work: Callable[[], T], receive: Receive) -> T:
        """What `work` returns or raises; it depends on `n_bytes` of a client's, whose body has been read.

        `receive`: tells when the client has left. Raises `ClientLeft` then, if the work is not done where it came in.
        """
        if n_bytes <= SMALL:
            return work()
        return await unless_client_leaves(_threaded(None if n_bytes <= LARGE else self._large, work), receive)


async def _threaded(threads: Executor | None, work: Callable[[], T]) -> T:
    return await asyncio.get_running_loop().run_in_executor(threads, work)
