"""uvicorn's server for this program: what it says when it listens, and how signals stop it."""

import asyncio
import os
import signal
import socket
from collections.abc import Callable, Mapping
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

    def __init__(
        self,
        config: uvicorn.Config,
        serve: Callable[[], Serving],
        line: str,
        on_signals: Mapping[signal.Signals, Callable[[], None]],
    ) -> None:
        """`serve`: what the application serves with at present. `line`: what is said.

        `on_signals`: what others than those that stop it do, on the event loop.
        """
        super().__init__(config)
        self._serving = serve
        self._line = line
        self._on_signals = on_signals

    @override
    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            for number, action in self._on_signals.items():
                asyncio.get_running_loop().add_signal_handler(number, action)
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
        _log.warning("answers are ended: they have had their time", requests=serve.stopping.n_open)
        serve.stopping.end()

    def _leave(self, sig: int) -> None:
        """End the process, with the usage that can be written in a moment."""
        serve = self._serving()
        n_lost = serve.gateway.ledger.end_now(LAST_SECONDS)
        _log.warning("stopped at once", requests=serve.stopping.n_open, usage_rows_lost=n_lost)
        os._exit(128 + sig)
