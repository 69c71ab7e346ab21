"""Remembering what the database said: how long, how much, and what holds while it is down."""

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
import structlog

from afterword.errors import Overloaded
from afterword.gateway import lookup_cache
from afterword.gateway.database import DatabaseDown
from afterword.gateway.lookup_cache import LookupCache, Outage


class Source:
    """Answers from a dictionary, in threads, and counts who asks; a clock that stands still beside it."""

    def __init__(self) -> None:
        self.answers = {"a": 1}
        self.asked: list[str] = []
        self.error: Exception | None = None
        self.open = threading.Event()
        self.open.set()
        self.now = 100.0

    def ask(self, name: str) -> int | None:
        self.open.wait()
        self.asked.append(name)
        if self.error is not None:
            raise self.error
        return self.answers.get(name)


@pytest.fixture
def source() -> Source:
    return Source()


@pytest.fixture
def answers(source: Source) -> Iterator[LookupCache[int]]:
    with ThreadPoolExecutor(1) as threads:
        yield LookupCache(source.ask, threads, Outage(lambda: source.now))
        source.open.set()


@pytest.mark.parametrize(("name", "expected"), [("a", 1), ("b", None)], ids=["known", "unknown"])
async def test_an_answer_is_current_for_a_second(
    source: Source, answers: LookupCache[int], name: str, expected: int | None
) -> None:
    for later, n_asked in ((0.0, 1), (0.9, 1), (0.2, 2)):
        source.now += later
        assert await answers.get(name) == expected
        assert len(source.asked) == n_asked


async def test_a_change_is_seen_after_that(source: Source, answers: LookupCache[int]) -> None:
    assert await answers.get("a") == 1
    source.answers = {"b": 2}
    source.now += 1.0
    assert (await answers.get("a"), await answers.get("b")) == (None, 2)


async def test_the_age_of_an_answer_counts_from_the_question(source: Source, answers: LookupCache[int]) -> None:
    source.open.clear()
    waiting = asyncio.ensure_future(answers.get("a"))
    await asyncio.sleep(0)
    source.now += 1.0
    source.open.set()
    assert await waiting == 1
    await answers.get("a")
    assert source.asked == ["a", "a"]


async def test_many_who_ask_at_once_are_one_question(source: Source, answers: LookupCache[int]) -> None:
    source.open.clear()
    waiting = [asyncio.ensure_future(answers.get("a")) for _ in range(10)]
    await asyncio.sleep(0)
    waiting[0].cancel()
    source.open.set()
    assert await asyncio.gather(*waiting[1:]) == [1] * 9
    assert source.asked == ["a"]


async def test_an_old_answer_holds_while_the_database_is_down(source: Source, answers: LookupCache[int]) -> None:
    await answers.get("a")
    source.error = DatabaseDown("it is down")
    with structlog.testing.capture_logs() as lines:
        for later in (1.0, 0.5, 1.0, 290.0):
            source.now += later
            assert await answers.get("a") == 1
    # It is asked at most once a second, and said once.
    assert len(source.asked) == 1 + 3
    assert [line["event"] for line in lines] == ["keys cannot be looked up"]
    source.now += 10.0
    with pytest.raises(Overloaded, match="cannot be looked up at the moment"):
        await answers.get("a")


async def test_without_an_old_answer_there_is_no_telling(source: Source, answers: LookupCache[int]) -> None:
    source.error = DatabaseDown("it is down")
    for name in ("a", "b"):
        with pytest.raises(Overloaded) as caught:
            await answers.get(name)
        assert caught.value.retry_after == 1
    assert source.asked == ["a"]
    source.error = None
    source.now += 1.0
    assert await answers.get("a") == 1


async def test_a_slow_database_is_not_waited_for_where_an_old_answer_holds(
    source: Source, answers: LookupCache[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lookup_cache, "REFRESH_SECONDS", 0.01)
    await answers.get("a")
    source.answers = {}
    source.open.clear()
    source.now += 1.0
    with structlog.testing.capture_logs() as lines:
        assert await answers.get("a") == 1
    assert [(line["event"], line["reason"]) for line in lines] == [
        ("keys cannot be looked up", "no answer within 0.01 s")
    ]
    # Nobody waits again at once.
    assert await answers.get("a") == 1
    source.open.set()
    while await answers.get("a") is not None:
        source.now += 1.0
        await asyncio.sleep(0)


async def test_a_database_that_never_answers_is_waited_for_a_while(
    source: Source, answers: LookupCache[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lookup_cache, "FIRST_SECONDS", 0.01)
    source.open.clear()
    with pytest.raises(Overloaded):
        await answers.get("a")
    source.open.set()


async def test_an_error_that_is_no_outage_is_not_hidden(source: Source, answers: LookupCache[int]) -> None:
    source.error = RuntimeError("a mistake")
    with pytest.raises(RuntimeError, match="a mistake"):
        await answers.get("a")
    source.error = None
    assert await answers.get("a") == 1


async def test_what_is_remembered_is_bounded_and_unknown_names_displace_no_known_ones(
    source: Source, answers: LookupCache[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lookup_cache, "MAX_KNOWN", 2)
    monkeypatch.setattr(lookup_cache, "MAX_UNKNOWN", 2)
    source.answers = {"a": 1, "b": 2, "c": 3}
    for name in ("a", "b", "x", "y", "z"):
        await answers.get(name)
    source.asked.clear()
    for name in ("a", "b", "z", "y", "x"):
        await answers.get(name)
    assert source.asked == ["x"]
    for name in ("c", "a"):
        await answers.get(name)
    assert source.asked == ["x", "c", "a"]


async def test_a_correction_keeps_the_age(source: Source, answers: LookupCache[int]) -> None:
    answers.update("a", 7)
    assert await answers.get("a") == 1
    answers.update("a", 7)
    assert await answers.get("a") == 7
    source.now += 1.0
    assert await answers.get("a") == 1
