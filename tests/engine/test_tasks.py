import asyncio
from dataclasses import dataclass

import pytest
from tests.fakes import eventually

from afterword.engine.capacity import Capacity
from afterword.engine.events import Finished
from afterword.engine.mailbox import Mailbox
from afterword.engine.tasks import Tasks
from afterword.engine.tracker import Counters, RequestTracker
from afterword.errors import EngineFailed

END = Finished(0, "length", 1, 0.0, 0)


@dataclass(eq=False)
class Prompt:
    mailbox: Mailbox
    error: BaseException | None = None
    hangs: bool = False
    n_unfinished: int = 2


class Engine:
    """Runs prompts as tasks; `ended` are those whose task has ended."""

    def __init__(self) -> None:
        self.tracker = RequestTracker(Capacity(4, 4), Counters())
        self.ended: list[Prompt] = []
        self.tasks: Tasks[Prompt] = Tasks(self.tracker, run=self._run, post=Mailbox.post, on_end=self.ended.append)

    def start(self, *, error: BaseException | None = None, hangs: bool = False) -> Prompt:
        prompt = Prompt(self.tracker.add(1), error, hangs)
        self.tasks.start(prompt)
        return prompt

    async def _run(self, prompt: Prompt) -> None:
        if prompt.error is not None:
            raise prompt.error
        if prompt.hangs:
            await asyncio.Event().wait()
        prompt.mailbox.post([END])


async def test_a_job_that_is_done_ends_once() -> None:
    engine = Engine()
    prompt = engine.start()
    assert await anext(prompt.mailbox) == END
    await eventually(lambda: engine.ended == [prompt])
    engine.tasks.cancel(prompt)
    await engine.tasks.aclose()
    assert engine.ended == [prompt]
    assert engine.tracker.counters.cancelled == 0


async def test_a_job_that_breaks_posts_its_error_and_the_others_go_on() -> None:
    engine = Engine()
    broken, good = engine.start(error=MemoryError()), engine.start()
    with pytest.raises(EngineFailed):
        await anext(broken.mailbox)
    assert await anext(good.mailbox) == END
    await eventually(lambda: set(engine.ended) == {broken, good})


@pytest.mark.parametrize("has_begun", [True, False])
async def test_a_cancelled_job_is_counted(has_begun: bool) -> None:
    engine = Engine()
    prompt = engine.start(hangs=True)
    if has_begun:
        await asyncio.sleep(0)
    engine.tasks.cancel(prompt)
    await eventually(lambda: engine.ended == [prompt])
    assert engine.tracker.counters.cancelled == 2


async def test_closing_ends_every_job_and_lets_none_begin() -> None:
    engine = Engine()
    prompts = [engine.start(hangs=True) for _ in range(3)]
    await engine.tasks.aclose()
    assert engine.ended == prompts
    late = engine.start()
    await asyncio.sleep(0)
    assert list(late.mailbox.unread()) == []
