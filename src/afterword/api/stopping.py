"""What an application still has to end: the answers that it gives, and engines that it serves no more.

An application that is given another configuration goes on with the old one for the requests that have begun. Each
configuration is an era, with engines, a reader of bodies and a count of requests; some engines are in several.
"""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

from afterword.api.exchange import OpenExchanges
from afterword.api.intake import Intake
from afterword.engine.base import Engine

SECONDS_TO_RECORD = 10.0
"""How long a stop waits for requests whose engine has closed to end and to be recorded."""


@dataclass(frozen=True, slots=True, eq=False)
class Era:
    """What requests use that begin with one configuration."""

    intake: Intake
    exchanges: OpenExchanges
    engines: Sequence[Engine]


class Stopping:
    """Ends the answers and engines of one application. On its event loop."""

    def __init__(self, era: Era) -> None:
        self._eras = [era]
        """Those of which requests are open, and the present one last."""
        self._closing: asyncio.Task[None] | None = None

    @property
    def n_open(self) -> int:
        """Requests that have not ended."""
        return sum(era.exchanges.n_open for era in self._eras)

    async def change(self, era: Era) -> None:
        """`era` has begun. Returns once requests from before have ended and engines that only they used are closed."""
        before = self._eras[-1]
        self._eras.append(era)
        await before.exchanges.wait()
        self._eras.remove(before)
        used = set(map(id, self._engines()))
        for engine in before.engines:
            if id(engine) not in used:
                await engine.aclose()

    def end(self) -> "asyncio.Task[None]":
        """End the answers: what has not begun is refused (503), a stream ends in an error event. The same task each
        time, over once all engines are closed."""
        if self._closing is None:
            for era in self._eras:
                era.intake.stop()
            self._closing = asyncio.get_running_loop().create_task(self._close())
        return self._closing

    async def recorded(self) -> None:
        """Wait until all requests have been recorded, but not for ever."""
        with suppress(TimeoutError):
            async with asyncio.timeout(SECONDS_TO_RECORD):
                for era in self._eras:
                    await era.exchanges.wait()

    def _engines(self) -> Iterator[Engine]:
        return (engine for era in self._eras for engine in era.engines)

    async def _close(self) -> None:
        """Close each engine once, whatever becomes of the others. Raises what the first one that failed did."""
        engines = {id(engine): engine for engine in self._engines()}.values()
        for ended in await asyncio.gather(*(engine.aclose() for engine in engines), return_exceptions=True):
            if isinstance(ended, BaseException):
                raise ended
