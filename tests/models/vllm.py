"""The default model on vLLM, started once for all tests of a run, as a start takes most of a minute.

For tests marked `vllm`. `make test-vllm` exports the model and names its directory in `AFTERWORD_TEST_VLLM_MODEL`.
"""

import asyncio
import os
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from afterword.engine.vllm.core import CoreOutput
from afterword.engine.vllm.plan import Plan
from afterword.engine.vllm.vllm_engine import VllmEngine
from afterword.engine.vllm.vllm_loading import VllmSettings

if TYPE_CHECKING:
    from afterword.engine.vllm.vllm_binding import VllmCore

CONTEXT = 2048
PARALLEL = 8


def model_directory() -> Path:
    """Where the exported model is."""
    return Path(os.environ["AFTERWORD_TEST_VLLM_MODEL"])


def settings(*, max_waiting: int = 64) -> VllmSettings:
    """Settings for a small engine on a small machine."""
    options = {"dtype": "float32", "enforce_eager": True}
    return VllmSettings(str(model_directory()), CONTEXT, PARALLEL, max_waiting, options)


ENVIRONMENT = {
    "HF_HUB_OFFLINE": "1",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    # One thread hardly feels a busy machine; several wait for each other.
    "OMP_NUM_THREADS": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    # What would be compiled is not worth the wait.
    "TORCH_COMPILE_DISABLE": "1",
}
"""For vLLM's processes."""


@cache
def shared_core() -> "VllmCore":
    """The one vLLM of this run; `close_shared_core` ends it."""
    os.environ.update(ENVIRONMENT)
    from afterword.engine.vllm.vllm_loading import start_core

    return start_core(settings())


def close_shared_core() -> None:
    """End the vLLM of this run if there is one."""
    if shared_core.cache_info().currsize:
        shared_core().close()
        shared_core.cache_clear()


class Lent:
    """The shared core for one engine, which may close what it was lent without closing it for the others."""

    def __init__(self, core: "VllmCore") -> None:
        self._core = core
        self.loop: asyncio.AbstractEventLoop = core.loop
        self.facts = core.facts
        self.on_end: Callable[[], None] = lambda: None
        self.n_closed = 0

    @property
    def is_dead(self) -> bool:
        return self._core.is_dead

    @property
    def n_steps(self) -> int:
        return self._core.n_steps

    def sample(self, plan: Plan) -> AsyncGenerator[CoreOutput, None]:
        return self._core.sample(plan)

    def close(self) -> None:
        self.n_closed += 1


def engine_on_shared_core(*, max_waiting: int) -> VllmEngine:
    """An engine of its own over the vLLM of this run."""
    from afterword.engine.vllm.vllm_loading import engine_over

    return engine_over(Lent(shared_core()), settings(max_waiting=max_waiting), model_directory())


@asynccontextmanager
async def open_vllm(*, max_waiting: int) -> AsyncIterator[VllmEngine]:
    """An engine over the vLLM that all tests share, closed at the end; it stays open itself."""
    engine = await asyncio.to_thread(engine_on_shared_core, max_waiting=max_waiting)
    try:
        yield engine
    finally:
        await engine.aclose()
