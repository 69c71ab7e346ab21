"""Opens embedded engines for tests: on tiny models, and on the default one."""

import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from tests.models.tiny import Tiny, write_tiny

from afterword.defaults import DEFAULT_MODEL
from afterword.engine.llama.engine import LlamaEngine
from afterword.engine.llama.loading import load_engine
from afterword.engine.llama.settings import LlamaSettings
from afterword.models import model_file


def settings(
    path: Path, cache_dir: Path, *, context: int = 512, parallel: int = 4, max_waiting: int = 64
) -> LlamaSettings:
    """Settings for a small engine: one thread, so that tests hardly feel a busy machine, and no limit of memory."""
    return LlamaSettings(path, context, parallel, 1, max_waiting, None, cache_dir)


@asynccontextmanager
async def open_tiny(
    tiny: Tiny, *, context: int = 512, parallel: int = 4, max_waiting: int = 64
) -> AsyncIterator[LlamaEngine]:
    """An engine on a tiny model written for it."""
    with tempfile.TemporaryDirectory() as directory:
        path = write_tiny(Path(directory), tiny)
        engine = load_engine(
            settings(path, Path(directory), context=context, parallel=parallel, max_waiting=max_waiting)
        )
        try:
            yield engine
        finally:
            await engine.aclose()


def load_default(cache_dir: Path, *, context: int, parallel: int) -> LlamaEngine:
    """An engine on the default model; the caller closes it."""
    return load_engine(settings(model_file(DEFAULT_MODEL.name), cache_dir, context=context, parallel=parallel))
