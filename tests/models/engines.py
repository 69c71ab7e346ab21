"""Opens embedded engines for tests: on tiny models, and on the default one."""

import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

from tests.models.tiny import Tiny, write_tiny

from afterword.config.model import DEFAULT_MODEL
from afterword.config.tree import Layout
from afterword.engine.llama.engine import LlamaEngine
from afterword.engine.llama.loading import LlamaSettings, load_engine
from afterword.loading.embedded import model_file


def settings(
    path: Path, cache_dir: Path, *, context: int = 512, parallel: int = 4, max_waiting: int = 64, threads: int = 1
) -> LlamaSettings:
    """Settings for a small engine without a limit of memory. One thread hardly feels a busy machine."""
    return LlamaSettings(path, context, parallel, threads, max_waiting, None, cache_dir, "original")


@asynccontextmanager
async def open_tiny(
    tiny: Tiny, *, context: int = 512, parallel: int = 4, max_waiting: int = 64, threads: int = 1
) -> AsyncIterator[LlamaEngine]:
    """An engine on a tiny model written for it."""
    with tempfile.TemporaryDirectory() as directory:
        path = write_tiny(Path(directory), tiny)
        cache_dir = Path(directory)
        engine = load_engine(
            settings(path, cache_dir, context=context, parallel=parallel, max_waiting=max_waiting, threads=threads)
        )
        try:
            yield engine
        finally:
            await engine.aclose()


def load_default(cache_dir: Path, *, context: int, parallel: int, layout: Layout = "split") -> LlamaEngine:
    """An engine on the default model with two threads, as most people run it; the caller closes it.

    The layout is the one that `auto` finds faster, without timing it.
    """
    path = model_file(DEFAULT_MODEL.name)
    found = settings(path, cache_dir, context=context, parallel=parallel, threads=2)
    return load_engine(replace(found, layout=layout))
