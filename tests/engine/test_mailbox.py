import asyncio
import threading

import pytest

from afterword.engine.events import Chunk, Event, Finished, PromptDone, SampledToken
from afterword.engine.mailbox import Mailbox, MailboxGeneration, deliver
from afterword.errors import EngineFailed

DONE = PromptDone(0, None)
TOKEN = SampledToken(97, 0, -1.0, ())


def mailbox(n_candidates: int = 1) -> Mailbox:
    return Mailbox(asyncio.get_running_loop(), n_candidates)


def finished(index: int = 0) -> Finished:
    return Finished(index, "length", 2, 0.0, 0)


async def read(source: Mailbox | MailboxGeneration) -> list[Event]:
    return [event async for event in source]


async def test_iteration_ends_after_the_last_candidate() -> None:
    box = mailbox(2)
    box.post([DONE, finished(0)])
    box.post([Chunk(1, "a", (), 1), finished(1)])
    assert await read(box) == [DONE, finished(0), Chunk(1, "a", (), 1), finished(1)]
    assert await read(box) == []


async def test_waiting_reader_is_woken_by_each_post() -> None:
    box = mailbox()
    reader = asyncio.ensure_future(anext(box))
    await asyncio.sleep(0)
    assert not reader.done()
    box.post([DONE])
    assert await reader == DONE


async def test_slow_reader_gets_one_chunk_for_many() -> None:
    box = mailbox()
    for number in range(1, 1001):
        box.post([Chunk(0, "ab", (), number)])
    box.post([finished()])
    assert await read(box) == [Chunk(0, "ab" * 1000, (), 1000), finished()]


async def test_candidates_that_interleave_are_merged_each_by_itself() -> None:
    box = mailbox(2)
    for number in (1, 2):
        box.post([Chunk(0, "a", (), number), Chunk(1, "b", (), number)])
    box.post([finished(0), finished(1)])
    assert await read(box) == [Chunk(0, "aa", (), 2), Chunk(1, "bb", (), 2), finished(0), finished(1)]


async def test_chunks_with_tokens_are_never_merged() -> None:
    box = mailbox()
    chunks = [
        Chunk(0, "a", (TOKEN,), 1),
        Chunk(0, "b", (TOKEN,), 2),
        Chunk(0, "c", (), 3),
        Chunk(0, "d", (TOKEN,), 4),
        Chunk(0, "e", (), 5),
    ]
    for chunk in chunks:
        box.post([chunk])
    box.post([finished()])
    assert await read(box) == [*chunks, finished()]


async def test_chunk_that_was_read_is_not_changed_by_later_ones() -> None:
    box = mailbox()
    box.post([Chunk(0, "a", (), 1)])
    assert await anext(box) == Chunk(0, "a", (), 1)
    box.post([Chunk(0, "b", (), 2), finished()])
    assert await read(box) == [Chunk(0, "b", (), 2), finished()]


async def test_failure_is_raised_after_what_came_before() -> None:
    box = mailbox()
    box.post([DONE, Chunk(0, "a", (), 1)])
    box.post([EngineFailed("broken")])
    seen = [await anext(box), await anext(box)]
    assert seen == [DONE, Chunk(0, "a", (), 1)]
    with pytest.raises(EngineFailed, match="broken"):
        await anext(box)


async def test_failure_reaches_a_waiting_reader() -> None:
    box = mailbox()
    reader = asyncio.ensure_future(anext(box))
    await asyncio.sleep(0)
    box.post([EngineFailed("broken")])
    with pytest.raises(EngineFailed, match="broken"):
        await reader


async def test_failure_after_the_end_is_nobodys_business() -> None:
    box = mailbox()
    box.post([finished()])
    box.post([EngineFailed("broken")])
    assert await read(box) == [finished()]


async def test_first_failure_stays() -> None:
    box = mailbox()
    box.post([EngineFailed("first")])
    box.post([EngineFailed("second")])
    with pytest.raises(EngineFailed, match="first"):
        await anext(box)


async def test_reader_that_was_cancelled_may_come_back() -> None:
    box = mailbox()
    reader = asyncio.ensure_future(anext(box))
    await asyncio.sleep(0)
    reader.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reader
    box.post([finished()])
    assert await read(box) == [finished()]


async def test_delivery_from_another_thread_reaches_all_mailboxes() -> None:
    first, second, failing = mailbox(), mailbox(), mailbox()

    def engine() -> None:
        broken = EngineFailed("broken")
        deliver([(first, DONE), (second, finished()), (failing, DONE), (first, finished()), (failing, broken)])

    thread = threading.Thread(target=engine)
    thread.start()
    assert await read(first) == [DONE, finished()]
    assert await read(second) == [finished()]
    assert await anext(failing) == DONE
    with pytest.raises(EngineFailed):
        await anext(failing)
    thread.join()


async def test_unread_events_are_taken_once_and_waited_for_never() -> None:
    box = mailbox()
    box.post([DONE, Chunk(0, "a", (), 1), Chunk(0, "b", (), 2)])
    assert await anext(box) == DONE
    assert list(box.unread()) == [Chunk(0, "ab", (), 2)]
    assert list(box.unread()) == []
    box.post([Chunk(0, "c", (), 3), finished(), EngineFailed("late")])
    assert list(box.unread()) == [Chunk(0, "c", (), 3), finished()]
    assert await read(box) == []


def test_delivery_to_a_closed_loop_is_ignored() -> None:
    loop = asyncio.new_event_loop()
    box = Mailbox(loop, 1)
    loop.close()
    deliver([(box, finished()), (box, EngineFailed("broken"))])
    assert not box.is_complete


class Closing:
    """A generation over a mailbox that remembers what its engine was told."""

    def __init__(self, box: Mailbox) -> None:
        self.n_closed = 0
        self.ended: list[int] = []
        self.generation = MailboxGeneration(box, self._closed, self.ended.append)

    def _closed(self) -> None:
        self.n_closed += 1


async def test_leaving_early_tells_the_engine_once() -> None:
    box = mailbox()
    closing = Closing(box)
    box.post([DONE])
    async with closing.generation as generation:
        assert await anext(aiter(generation)) == DONE
    assert closing.n_closed == 1
    async with closing.generation:
        pass
    assert closing.n_closed == 1


async def test_leaving_by_an_exception_tells_the_engine_and_lets_it_through() -> None:
    closing = Closing(mailbox())
    with pytest.raises(ZeroDivisionError):
        async with closing.generation:
            raise ZeroDivisionError
    assert closing.n_closed == 1


async def test_leaving_after_the_end_tells_nobody() -> None:
    box = mailbox()
    closing = Closing(box)
    box.post([DONE, finished()])
    async with closing.generation as generation:
        assert await read(box) == [DONE, finished()]
        assert [event async for event in generation] == []
    assert closing.n_closed == 0


async def test_leaving_after_a_failure_tells_nobody() -> None:
    box = mailbox()
    closing = Closing(box)
    box.post([EngineFailed("broken")])
    with pytest.raises(EngineFailed):
        async with closing.generation as generation:
            await anext(aiter(generation))
    assert closing.n_closed == 0


async def test_ending_a_candidate_tells_the_engine_which() -> None:
    closing = Closing(mailbox(3))
    closing.generation.end(2)
    assert (closing.ended, closing.n_closed) == ([2], 0)


async def test_ending_a_candidate_after_the_end_tells_nobody() -> None:
    box = mailbox()
    closing = Closing(box)
    box.post([DONE, finished()])
    closing.generation.end(0)
    assert closing.ended == []
