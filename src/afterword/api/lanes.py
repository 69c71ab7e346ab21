"""Where work is done whose cost grows with what a client has sent, so that it holds nobody up.

Small bodies are worked on where they come in, on the event loop: it takes milliseconds at most. Larger ones are worked
on in threads, and the largest in a thread one after another, so that a few of them leave the others room. What lets no
other thread run, one call of the JSON parser for instance, is bounded by limits of its own (intake.py).
"""

import asyncio
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

SMALL = 20_000
"""Bytes up to which a thread would cost more than it saves."""

LARGE = 1024 * 1024
"""Bytes from which bodies wait for each other."""


class Lanes:
    """One for each application. On the event loop."""

    def __init__(self) -> None:
        self._large = asyncio.Lock()

    async def run(self, n_bytes: int, work: Callable[[], T]) -> T:
        """What `work` returns or raises; it depends on `n_bytes` of a client's."""
        if n_bytes <= SMALL:
            return work()
        if n_bytes <= LARGE:
            return await asyncio.to_thread(work)
        async with self._large:
            return await asyncio.to_thread(work)
