"""Opens embedded engines for tests: on tiny models, and on the default one."""

import atexit
import shutil
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path

from tests.models.tiny import Tiny, write_tiny

from afterword.config.model import DEFAULT_MODEL
from afterword.engine.llama.llama_engine import LlamaEngine
from afterword.engine.llama.llama_loading import LlamaSettings, load_engine
from afterword.loading.embedded import model_file


def settings(
    path: Path, cache_dir: Path, *, context: int = 512, parallel: int = 4, max_waiting: int = 64, threads: int = 1
) -> LlamaSettings:
    """Settings for a small engine without a limit of memory. One thread hardly feels a busy machine."""
    return LlamaSettings(path, context, parallel, threads, max_waiting, None, cache_dir, "own")


@cache
def kept_tiny(tiny: Tiny) -> Path:
    """The model's file, written once for all tests; engines keep beside it what they find out about it."""
    directory = tempfile.mkdtemp(prefix="afterword-tiny-")
    atexit.register(shutil.rmtree, directory)
    return write_tiny(Path(directory), tiny)


@asynccontextmanager
async def open_tiny(
    tiny: Tiny, *, context: int = 512, parallel: int = 4, max_waiting: int = 64, threads: int = 1
) -> AsyncIterator[LlamaEngine]:
    """An engine of one's own on a tiny model."""
    path = kept_tiny(tiny)
    engine = load_engine(
        settings(path, path.parent, context=context, parallel=parallel, max_waiting=max_waiting, threads=threads)
    )
    try:
        yield engine
    finally:
        await engine.aclose()


def load_default(cache_dir: Path, *, context: int, parallel: int, threads: int = 1) -> LlamaEngine:
    """An engine on the default model; the caller closes it."""
    path = model_file(DEFAULT_MODEL.name)
    return load_engine(settings(path, cache_dir, context=context, parallel=parallel, threads=threads))
