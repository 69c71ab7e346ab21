"""How an application stops: what ends its answers once they have had their time."""

import asyncio
from collections.abc import Callable, Iterable

from afterword.api.intake import Intake
from afterword.engine.base import Engine


class Stopping:
    """Ends the answers of one application. On its event loop."""

    def __init__(self, intake: Intake, engines: Callable[[], Iterable[Engine]]) -> None:
        """`engines`: all that may have something to do, when it is called."""
        self._intake = intake
        self._engines = engines
        self._closing: asyncio.Task[None] | None = None

    def end(self) -> "asyncio.Task[None]":
        """End them: what has not begun is refused (503), a stream ends in an error event. The same task each time, over
        once all engines are closed."""
        if self._closing is None:
            self._intake.stop()
            self._closing = asyncio.get_running_loop().create_task(self._close())
        return self._closing

    async def _close(self) -> None:
        """Close each engine once, whatever becomes of the others. Raises what the first one that failed did."""
        engines = {id(engine): engine for engine in self._engines()}.values()
        for ended in await asyncio.gather(*(engine.aclose() for engine in engines), return_exceptions=True):
            if isinstance(ended, BaseException):
                raise ended
