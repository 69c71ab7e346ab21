import asyncio
from dataclasses import dataclass

import pytest
from tests.fakes import eventually

from afterword.engine.events import Finished
from afterword.engine.mailbox import Mailbox
from afterword.engine.readers import Counters, Readers
from afterword.engine.room import Room
from afterword.engine.tasks import Tasks
from afterword.errors import EngineFailed

END = Finished(0, "length", 1, 0.0, 0)


@dataclass(eq=False)
class Prompt:
    mailbox: Mailbox
    error: BaseException | None = None
    hangs: bool = False
    n_unfinished: int = 2


class Office:
    """Tasks of prompts; `left` are those that are over."""

    def __init__(self) -> None:
        self.readers = Readers(Room(4, 4), Counters())
        self.left: list[Prompt] = []
        self.tasks: Tasks[Prompt] = Tasks(self.readers, work=self._work, post=Mailbox.post, leave=self.left.append)

    def start(self, *, error: BaseException | None = None, hangs: bool = False) -> Prompt:
        prompt = Prompt(self.readers.enter(1), error, hangs)
        self.tasks.start(prompt)
        return prompt

    async def _work(self, prompt: Prompt) -> None:
        if prompt.error is not None:
            raise prompt.error
        if prompt.hangs:
            await asyncio.Event().wait()
        prompt.mailbox.post([END])


async def test_a_job_that_is_done_is_left_once() -> None:
    office = Office()
    prompt = office.start()
    assert await anext(prompt.mailbox) == END
    await eventually(lambda: office.left == [prompt])
    office.tasks.cancel(prompt)
    await office.tasks.aclose()
    assert office.left == [prompt]
    assert office.readers.counters.cancelled == 0


async def test_a_job_that_breaks_tells_its_reader_and_the_others_go_on() -> None:
    office = Office()
    broken, good = office.start(error=MemoryError()), office.start()
    with pytest.raises(EngineFailed):
        await anext(broken.mailbox)
    assert await anext(good.mailbox) == END
    await eventually(lambda: set(office.left) == {broken, good})


@pytest.mark.parametrize("has_begun", [True, False])
async def test_a_job_whose_reader_has_left_is_cancelled_and_counted(has_begun: bool) -> None:
    office = Office()
    prompt = office.start(hangs=True)
    if has_begun:
        await asyncio.sleep(0)
    office.tasks.cancel(prompt)
    await eventually(lambda: office.left == [prompt])
    assert office.readers.counters.cancelled == 2


async def test_closing_ends_every_job_and_lets_none_begin() -> None:
    office = Office()
    prompts = [office.start(hangs=True) for _ in range(3)]
    await office.tasks.aclose()
    assert office.left == prompts
    late = office.start()
    await asyncio.sleep(0)
    assert list(late.mailbox.unread()) == []
