"""Waits a limited time for something that blocks and may never end, such as a thread that a database keeps."""

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress


async def ends_within(seconds: float, block: Callable[[], object]) -> bool:
    """Call `block` in a thread that nobody waits for when the process ends; whether it returned in time."""
    loop, ended = asyncio.get_running_loop(), asyncio.Event()

    def run() -> None:
        block()
        # The loop is closed if the time is long over.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(ended.set)

    threading.Thread(target=run, name="bounded wait", daemon=True).start()
    try:
        async with asyncio.timeout(seconds):
            await ended.wait()
    except TimeoutError:
        return False
    return True
