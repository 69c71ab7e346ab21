"""The engines that have to keep the contract. A new one is a function here and a line in `ENGINES`."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Protocol

import pytest

from afterword.engine.base import Engine
from afterword.engine.echo import EchoEngine


class OpenEngine(Protocol):
    """Opens an engine of at least two streams and a waiting room of `max_waiting` sequences, and closes it."""

    def __call__(self, *, max_waiting: int) -> AbstractAsyncContextManager[Engine]: ...


@asynccontextmanager
async def open_echo(*, max_waiting: int) -> AsyncIterator[Engine]:
    engine = EchoEngine(n_streams=4, max_waiting=max_waiting)
    try:
        yield engine
    finally:
        await engine.aclose()


ENGINES = [pytest.param(open_echo, id="echo")]
