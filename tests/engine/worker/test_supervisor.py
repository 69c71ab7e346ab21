import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import cast

import pytest
from tests.engine.llama.fake_context import N_VOCAB
from tests.fakes import eventually
from tests.models.engines import kept_tiny, settings
from tests.models.tiny import Tiny

from afterword.engine.base import Capabilities
from afterword.engine.llama.engine_thread import Progress
from afterword.engine.tracker import Counters
from afterword.engine.worker.process import Worker
from afterword.engine.worker.supervisor import Lost, Supervisor, _Connection, pause
from afterword.engine.worker.worker_messages import Ready, Step, packed
from afterword.errors import EngineLost

SECONDS = 0.02
"""A step may take no longer."""

STEP = Step([], Progress(0, 0, 0), Counters())


def test_pauses_have_a_limit() -> None:
    assert [pause(n) for n in (0, 1, 2, 3, 7, 1000)] == [0, 1, 2, 4, 60, 60]


@dataclass(slots=True)
class Prompts:
    """Stands in for the engine."""

    has_work: bool = False
    on_ask: Callable[[], None] = lambda: None
    steps: list[Step] = field(default_factory=list)

    @property
    def busy(self) -> bool:
        self.on_ask()
        return self.has_work

    def connected(self) -> None: ...

    def received(self, step: Step) -> None:
        self.steps.append(step)

    def lost(self) -> Lost:
        return Lost(0, 0, finished_some=False)

    def refuse(self, why: EngineLost) -> None: ...


@dataclass(slots=True)
class FakeWorker:
    """A process whose connection ends when it is killed."""

    on_kill: Callable[[], None]
    pid: int = 1

    def kill(self) -> None:
        self.on_kill()


@dataclass(slots=True)
class Watch:
    """A supervisor that waits for the end of a process."""

    prompts: Prompts
    connection: _Connection
    killed: bool = False
    stands_still: "asyncio.Task[bool]" = field(init=False)

    def kill(self) -> None:
        self.killed = True
        self.connection.connection_lost(None)


@pytest.fixture
async def watch() -> AsyncIterator[Watch]:
    prompts = Prompts()
    found = Watch(prompts, _Connection(prompts, asyncio.get_running_loop().create_future()))
    path = kept_tiny(Tiny())
    ready = Ready(Capabilities(512, N_VOCAB, reproducible=True, prefix_cache=True, n_slots=4), "fp_0")
    worker = cast(Worker, FakeWorker(found.kill))
    supervisor = Supervisor(settings(path, path.parent), worker, ready, prompts, SECONDS)
    found.stands_still = asyncio.create_task(supervisor._until_the_end(found.connection))
    yield found
    found.stands_still.cancel()


async def test_a_process_that_was_sent_something_and_says_nothing_stands_still(watch: Watch) -> None:
    watch.prompts.has_work = True
    assert await watch.stands_still
    assert watch.killed


async def test_one_that_has_nothing_to_do_does_not(watch: Watch) -> None:
    await asyncio.wait({watch.stands_still}, timeout=10 * SECONDS)
    assert not watch.killed
    watch.connection.connection_lost(None)
    assert not await watch.stands_still


async def test_one_that_says_something_now_and_then_does_not(watch: Watch) -> None:
    watch.prompts.has_work = True
    # Whenever it is asked whether there is something to do, it has said something since.
    watch.prompts.on_ask = lambda: watch.connection.data_received(packed(STEP))
    await eventually(lambda: len(watch.prompts.steps) >= 6)
    assert not watch.killed
    watch.connection.connection_lost(None)
    assert not await watch.stands_still
