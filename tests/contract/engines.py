"""The engines that have to keep the contract. A new one is a function here and a line in `ENGINES`."""

import os
import shutil
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from typing import Protocol

import pytest
from tests.cluster.in_process import LocalReplicas, cluster_engine
from tests.engine.upstream.llama_server import running_llama_server
from tests.engine.upstream.opening import opened
from tests.live import run_server
from tests.models.engines import kept_tiny, open_tiny, settings
from tests.models.tiny import Tiny
from tests.models.vllm import open_vllm

from afterword.api.app import create_app
from afterword.config.tree import ServerConfig
from afterword.config.values import GpuLayers
from afterword.engine.base import Engine
from afterword.engine.echo import EchoEngine
from afterword.engine.llama.binding import LlamaModel
from afterword.engine.llama.llama_loading import load_engine
from afterword.engine.llama.offload import OffloadSettings
from afterword.engine.llama.vocabulary import Vocabulary
from afterword.engine.worker.worker_engine import load_engine as load_worker
from afterword.registry import Registry, ServedModel
from afterword.tokens import ByteTokenizer


class OpenEngine(Protocol):
    """Opens an engine of at least two streams and a queue of `max_waiting` sequences, and closes it."""

    def __call__(self, *, max_waiting: int) -> AbstractAsyncContextManager[Engine]: ...


@asynccontextmanager
async def open_echo(*, max_waiting: int) -> AsyncIterator[Engine]:
    engine = EchoEngine(n_slots=4, max_waiting=max_waiting)
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


def offloaded(layers: GpuLayers) -> OpenEngine:
    """The embedded engine with so many layers on the accelerators that llama.cpp finds."""

    @asynccontextmanager
    async def open_offloaded(*, max_waiting: int) -> AsyncIterator[Engine]:
        path = kept_tiny(Tiny("Q8_0", add_bos=True))
        asked = replace(settings(path, path.parent, max_waiting=max_waiting), offload=OffloadSettings(layers))
        engine = load_engine(asked)
        try:
            yield engine
        finally:
            await engine.aclose()

    return open_offloaded


@asynccontextmanager
async def open_worker(*, max_waiting: int) -> AsyncIterator[Engine]:
    """The embedded engine in a process of its own."""
    path = kept_tiny(Tiny("Q8_0", add_bos=True))
    engine = load_worker(settings(path, path.parent, max_waiting=max_waiting), step_seconds=300)
    try:
        yield engine
    finally:
        await engine.aclose()


@asynccontextmanager
async def open_upstream_echo(*, max_waiting: int) -> AsyncIterator[Engine]:
    """Our own server over HTTP, with the echo engine behind it."""
    served = ServedModel("echo", EchoEngine(n_slots=64, max_waiting=1000), 0)
    with run_server(create_app(Registry([served]), ServerConfig())) as url:
        async with opened(url, "echo", ByteTokenizer(), kind="afterword", max_waiting=max_waiting) as engine:
            yield engine


@asynccontextmanager
async def open_upstream_llama(*, max_waiting: int) -> AsyncIterator[Engine]:
    """Our own server over HTTP, with a tiny model behind it, whose vocabulary is read from the file."""
    path = kept_tiny(Tiny("Q8_0", add_bos=True))
    behind = load_engine(settings(path, path.parent, parallel=8, max_waiting=1000))
    vocabulary = Vocabulary(LlamaModel(path, vocab_only=True))
    app = create_app(Registry([ServedModel("tiny", behind, 0)]), ServerConfig())
    with run_server(app) as url:
        async with opened(url, "tiny", vocabulary, kind="afterword", max_waiting=max_waiting) as engine:
            yield engine


@asynccontextmanager
async def open_llama_server(*, max_waiting: int) -> AsyncIterator[Engine]:
    """llama-server with a tiny model, whose vocabulary is read from the file; skips where none is installed."""
    program = os.environ.get("AFTERWORD_LLAMA_SERVER") or shutil.which("llama-server")
    if program is None:
        pytest.skip("there is no llama-server: put one on PATH or name it in AFTERWORD_LLAMA_SERVER")
    path = kept_tiny(Tiny("Q8_0", add_bos=True))
    vocabulary = Vocabulary(LlamaModel(path, vocab_only=True))
    with running_llama_server(program, path, n_slots=4, context=512) as url:
        async with opened(url, "tiny", vocabulary, kind="llama-server", max_waiting=max_waiting) as engine:
            yield engine


@asynccontextmanager
async def open_cluster(*, max_waiting: int) -> AsyncIterator[Engine]:
    """The cluster's engine over one replica of the echo engine, in this process."""
    replica = EchoEngine(n_slots=4, max_waiting=max_waiting)
    engine = cluster_engine(LocalReplicas([replica]))
    # The figures that it has of its replicas are seconds old, which no test can wait for.
    engine.stats = replica.stats  # type: ignore[method-assign]
    try:
        yield engine
    finally:
        await engine.aclose()
        await replica.aclose()


ENGINES = [
    pytest.param(open_echo, id="echo"),
    pytest.param(open_llama_f32, id="llama-f32"),
    pytest.param(open_llama_q8, id="llama-q8"),
    pytest.param(open_worker, id="worker"),
    pytest.param(offloaded("all"), id="llama-gpu", marks=pytest.mark.gpu),
    pytest.param(offloaded(2), id="llama-half-gpu", marks=pytest.mark.gpu),
    pytest.param(open_vllm, id="vllm", marks=pytest.mark.vllm),
    pytest.param(open_upstream_echo, id="upstream-echo"),
    pytest.param(open_upstream_llama, id="upstream-llama"),
    pytest.param(open_llama_server, id="upstream-llama-server"),
]

ON_A_CLUSTER = pytest.param(open_cluster, id="cluster")
"""Its replicas have rooms, ends and figures of their own, so it is in those tests alone that are about none of them."""
