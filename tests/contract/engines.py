"""The engines that have to keep the contract. A new one is a function here and a line in `ENGINES`."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Protocol

import pytest
from tests.models.engines import open_tiny
from tests.models.tiny import Tiny
from tests.models.vllm import open_vllm

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


@asynccontextmanager
async def open_llama_f32(*, max_waiting: int) -> AsyncIterator[Engine]:
    async with open_tiny(Tiny("F32"), max_waiting=max_waiting) as engine:
        yield engine


@asynccontextmanager
async def open_llama_q8(*, max_waiting: int) -> AsyncIterator[Engine]:
    async with open_tiny(Tiny("Q8_0", add_bos=True), max_waiting=max_waiting) as engine:
        yield engine


ENGINES = [
    pytest.param(open_echo, id="echo"),
    pytest.param(open_llama_f32, id="llama-f32"),
    pytest.param(open_llama_q8, id="llama-q8"),
    pytest.param(open_vllm, id="vllm", marks=pytest.mark.vllm),
]
