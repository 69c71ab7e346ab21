import asyncio
import gc
import threading
from collections.abc import Iterable
from pathlib import Path

import pytest
import structlog
from structlog.testing import capture_logs

from afterword.engine.capacity import Capacity
from afterword.engine.events import PromptDone
from afterword.engine.mailbox import EventOrError
from afterword.engine.tracker import Counters, RequestTracker, post_failures, public_error
from afterword.errors import EngineFailed, InvalidRequest, Overloaded, UpstreamFailed

BROKEN = EngineFailed("broken")


def new_tracker(n_slots: int = 2, max_waiting: int = 3) -> RequestTracker:
    return RequestTracker(Capacity(n_slots, max_waiting), Counters())


async def test_what_does_not_run_waits() -> None:
    tracker = new_tracker()
    tracker.add(3)
    assert (tracker.stats(0).running, tracker.stats(0).waiting, tracker.stats(0).slots_free) == (0, 3, 2)
    assert (tracker.stats(2).running, tracker.stats(2).waiting, tracker.stats(2).slots_free) == (2, 1, 0)
    tracker.remove(2)
    # What was removed is no longer counted, though the engine may still report it as running.
    assert (tracker.stats(2).running, tracker.stats(2).waiting) == (1, 0)
    assert tracker.stats(1, slots_idle=1).slots_free == 0


async def test_what_is_beyond_the_limit_is_refused_until_something_ends() -> None:
    tracker = new_tracker()
    tracker.add(4)
    with pytest.raises(Overloaded):
        tracker.add(2)
    tracker.remove(1)
    tracker.add(2)


async def test_the_end_reaches_all_mailboxes_and_all_later_prompts() -> None:
    tracker = new_tracker()
    mailboxes = [tracker.add(1), tracker.add(1)]
    mailboxes[0].post([PromptDone(0, None)])
    ending = threading.Thread(target=tracker.end, args=("failed", BROKEN))
    ending.start()
    assert await anext(mailboxes[0]) == PromptDone(0, None)
    for mailbox in mailboxes:
        with pytest.raises(EngineFailed):
            await anext(mailbox)
    ending.join()
    with pytest.raises(EngineFailed, match="broken") as refused:
        tracker.add(1)
    assert refused.value is not BROKEN
    assert (tracker.stats(2).state, tracker.stats(2).running, tracker.stats(2).waiting) == ("failed", 0, 0)


async def test_only_the_first_end_counts() -> None:
    tracker = new_tracker()
    mailbox = tracker.add(1)
    tracker.end("closed", EngineFailed("closed"))
    tracker.end("failed", BROKEN)
    with pytest.raises(EngineFailed, match="closed"):
        await anext(mailbox)
    assert tracker.stats(0).state == "closed"


async def test_a_dropped_mailbox_is_not_kept() -> None:
    tracker = new_tracker()
    tracker.add(1)
    gc.collect()
    assert len(tracker._mailboxes) == 0


def test_counters_are_those_of_the_statistics() -> None:
    tracker = new_tracker()
    tracker.counters.add_prompt(9, 4)
    tracker.counters.completion_tokens += 3
    stats = tracker.stats(0)
    assert (stats.prompt_tokens, stats.prefill_tokens, stats.cached_tokens) == (9, 5, 4)
    assert stats.completion_tokens == 3


@pytest.mark.parametrize("error", [InvalidRequest("no"), BROKEN, UpstreamFailed("HTTP status 500")])
def test_an_error_meant_for_clients_stays_as_it_is(error: Exception) -> None:
    assert public_error(error, "what") is error


def test_any_other_error_is_logged_and_replaced() -> None:
    secret = ZeroDivisionError("secret")
    with capture_logs() as lines:
        public = public_error(secret, "It failed.")
    assert (type(public), str(public), public.__cause__) == (EngineFailed, "It failed.", secret)
    assert [(line["detail"], line["exc_info"]) for line in lines] == [("It failed.", secret)]


def test_a_refusal_is_not_logged() -> None:
    with capture_logs() as lines:
        public_error(InvalidRequest("no"), "what")
    assert lines == []


def test_a_log_that_cannot_be_written_does_not_lose_the_error(tmp_path: Path) -> None:
    with (tmp_path / "log").open("w") as closed:
        structlog.configure(logger_factory=structlog.PrintLoggerFactory(file=closed))
    assert str(public_error(ZeroDivisionError(), "It failed.")) == "It failed."


class Panic(BaseException):
    """What a library of another language may raise."""


@pytest.mark.parametrize(
    ("error", "is_raised"),
    [
        pytest.param(MemoryError(), False, id="an exception"),
        pytest.param(Panic(), True, id="no exception"),
    ],
)
def test_whatever_breaks_a_block_is_posted(error: BaseException, is_raised: bool) -> None:
    posted: list[EventOrError] = []

    def work() -> None:
        with post_failures(posted.extend):
            raise error

    if is_raised:
        with pytest.raises(type(error)):
            work()
    else:
        work()
    assert [type(item) for item in posted] == [EngineFailed]


@pytest.mark.parametrize("error", [asyncio.CancelledError(), GeneratorExit()])
def test_cancellation_is_no_failure(error: BaseException) -> None:
    def post(items: Iterable[EventOrError]) -> None:
        raise AssertionError(items)

    with pytest.raises(type(error)), post_failures(post):
        raise error
