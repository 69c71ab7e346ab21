import asyncio
import gc
import threading
from collections.abc import Iterable
from pathlib import Path

import pytest
import structlog
from structlog.testing import capture_logs

from afterword.engine.events import PromptDone
from afterword.engine.mailbox import Said
from afterword.engine.readers import Counters, Readers, as_told, telling
from afterword.engine.room import Room
from afterword.errors import EngineFailed, InvalidRequest, Overloaded, UpstreamFailed

BROKEN = EngineFailed("broken")


def readers(n_places: int = 2, max_waiting: int = 3) -> Readers:
    return Readers(Room(n_places, max_waiting), Counters())


async def test_those_who_come_wait_until_they_run() -> None:
    people = readers()
    people.enter(3)
    assert (people.stats(0).running, people.stats(0).waiting, people.stats(0).slots_free) == (0, 3, 2)
    assert (people.stats(2).running, people.stats(2).waiting, people.stats(2).slots_free) == (2, 1, 0)
    people.leave(2)
    # One who has left is no longer counted, though the engine may still say that it runs.
    assert (people.stats(2).running, people.stats(2).waiting) == (1, 0)
    assert people.stats(1, slots_idle=1).slots_free == 0


async def test_what_does_not_fit_is_refused_until_somebody_leaves() -> None:
    people = readers()
    people.enter(4)
    with pytest.raises(Overloaded):
        people.enter(2)
    people.leave(1)
    people.enter(2)


async def test_the_end_is_told_to_all_who_read_and_all_who_come() -> None:
    people = readers()
    boxes = [people.enter(1), people.enter(1)]
    boxes[0].post([PromptDone(0, None)])
    ending = threading.Thread(target=people.end, args=("failed", BROKEN))
    ending.start()
    assert await anext(boxes[0]) == PromptDone(0, None)
    for box in boxes:
        with pytest.raises(EngineFailed):
            await anext(box)
    ending.join()
    with pytest.raises(EngineFailed, match="broken") as refused:
        people.enter(1)
    assert refused.value is not BROKEN
    assert (people.stats(2).state, people.stats(2).running, people.stats(2).waiting) == ("failed", 0, 0)


async def test_the_first_end_stays() -> None:
    people = readers()
    box = people.enter(1)
    people.end("closed", EngineFailed("closed"))
    people.end("failed", BROKEN)
    with pytest.raises(EngineFailed, match="closed"):
        await anext(box)
    assert people.stats(0).state == "closed"


async def test_nobody_is_kept_who_reads_no_more() -> None:
    people = readers()
    people.enter(1)
    gc.collect()
    assert len(people._mailboxes) == 0


def test_counters_are_those_of_the_statistics() -> None:
    people = readers()
    people.counters.add_prompt(9, 4)
    people.counters.completion_tokens += 3
    stats = people.stats(0)
    assert (stats.prompt_tokens, stats.prefill_tokens, stats.cached_tokens) == (9, 5, 4)
    assert stats.completion_tokens == 3


@pytest.mark.parametrize("error", [InvalidRequest("no"), BROKEN, UpstreamFailed("HTTP status 500")])
def test_what_is_meant_for_readers_is_told_as_it_is(error: Exception) -> None:
    assert as_told(error, "what") is error


def test_what_is_not_meant_for_readers_is_logged_and_told_without_its_cause() -> None:
    secret = ZeroDivisionError("secret")
    with capture_logs() as lines:
        told = as_told(secret, "It failed.")
    assert (type(told), str(told), told.__cause__) == (EngineFailed, "It failed.", secret)
    assert [(line["detail"], line["exc_info"]) for line in lines] == [("It failed.", secret)]


def test_a_refusal_is_not_logged() -> None:
    with capture_logs() as lines:
        as_told(InvalidRequest("no"), "what")
    assert lines == []


def test_a_log_that_cannot_be_written_is_no_reason_to_say_nothing(tmp_path: Path) -> None:
    with (tmp_path / "log").open("w") as closed:
        structlog.configure(logger_factory=structlog.PrintLoggerFactory(file=closed))
    assert str(as_told(ZeroDivisionError(), "It failed.")) == "It failed."


class Panic(BaseException):
    """What a library of another language may raise."""


@pytest.mark.parametrize(
    ("error", "passes"),
    [
        pytest.param(MemoryError(), False, id="any exception"),
        pytest.param(Panic(), True, id="what is none"),
    ],
)
def test_whatever_breaks_a_block_is_told(error: BaseException, passes: bool) -> None:
    said: list[Said] = []

    def work() -> None:
        with telling(said.extend):
            raise error

    if passes:
        with pytest.raises(type(error)):
            work()
    else:
        work()
    assert [type(each) for each in said] == [EngineFailed]


@pytest.mark.parametrize("error", [asyncio.CancelledError(), GeneratorExit()])
def test_who_is_stopped_tells_nothing(error: BaseException) -> None:
    def post(said: Iterable[Said]) -> None:
        raise AssertionError(said)

    with pytest.raises(type(error)), telling(post):
        raise error
