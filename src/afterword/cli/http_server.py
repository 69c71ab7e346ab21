"""uvicorn's server for this program: what it says when it listens, and how signals stop it."""

import asyncio
import os
import socket
from collections.abc import Callable
from types import FrameType

import structlog
import typer
import uvicorn
from typing_extensions import override

from afterword.api.serving import Serving

LAST_SECONDS = 1.0
"""How long a second signal lets usage be written."""

_log = structlog.get_logger("afterword")


class HttpServer(uvicorn.Server):
    """Says a line once it listens, ends answers that have had their time, and leaves at once at a second signal.

    uvicorn has no hooks for that but the methods themselves.
    """

    def __init__(self, config: uvicorn.Config, serve: Callable[[], Serving], line: str) -> None:
        """`serve`: what the application serves with at present. `line`: what is said."""
        super().__init__(config)
        self._serving = serve
        self._line = line

    @override
    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            typer.echo(self._line)

    @override
    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        seconds = self._serving().server.drain_timeout
        ending = asyncio.get_running_loop().call_later(seconds, self._end_answers)
        try:
            await super().shutdown(sockets)
        finally:
            ending.cancel()

    @override
    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        if self.should_exit:
            self._leave(sig)
        super().handle_exit(sig, frame)

    def _end_answers(self) -> None:
        serve = self._serving()
        _log.warning("answers are ended: they have had their time", requests=serve.recording.exchanges.n_open)
        serve.stopping.end()

    def _leave(self, sig: int) -> None:
        """End the process, with the usage that can be written in a moment."""
        serve = self._serving()
        n_lost = serve.gateway.ledger.end_now(LAST_SECONDS)
        _log.warning("stopped at once", requests=serve.recording.exchanges.n_open, usage_rows_lost=n_lost)
        os._exit(128 + sig)
