"""Opens engines whose model is in a process of its own, for tests of what becomes of that process."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from tests.fakes import eventually
from tests.models.engines import kept_tiny, settings
from tests.models.tiny import Tiny

from afterword.engine.worker.worker_engine import WorkerEngine, load_engine

FAULTY = "tests.engine.worker.faulty_child"
"""Stands in for `process.CHILD`."""

TINY = Tiny("Q8_0")


@asynccontextmanager
async def open_worker(
    path: Path | None = None, *, parallel: int = 2, max_waiting: int = 64, step_seconds: float = 300
) -> AsyncIterator[WorkerEngine]:
    """An engine on a file, a tiny model by default."""
    file = kept_tiny(TINY) if path is None else path
    engine = load_engine(
        settings(file, file.parent, parallel=parallel, max_waiting=max_waiting), step_seconds=step_seconds
    )
    try:
        yield engine
    finally:
        await engine.aclose()


async def idle(engine: WorkerEngine) -> None:
    """Return once nothing runs and nothing waits."""
    await eventually(lambda: engine.stats().running == engine.stats().waiting == 0)
