"""Several places for one model: who is asked, and when the next one is."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
from structlog.testing import capture_logs
from tests.api.served import BreakingEngine
from tests.completions.scripted import CAPABILITIES, ScriptedEngine
from tests.fakes import complete, eventually, generation_request, until_prompt_is_done

from afterword.engine.base import UNKNOWN_CONTEXT, Capabilities, Engine, EngineStats, Generation, UpstreamStats
from afterword.engine.echo import EchoEngine
from afterword.engine.events import Event, Finished, PromptDone
from afterword.engine.fallback import FallbackEngine, Member
from afterword.engine.request import GenerationRequest
from afterword.errors import AfterwordError, EngineFailed, InvalidRequest, Overloaded, UpstreamFailed

REQUEST = generation_request(b"hi", max_tokens=4)
FULL = Overloaded("full", retry_after=7)
DOWN = UpstreamFailed("HTTP status 500")


class Refusing(EchoEngine):
    """Refuses every request at once."""

    def __init__(self, error: AfterwordError) -> None:
        super().__init__()
        self._error = error

    def generate(self, request: GenerationRequest) -> Generation:
        raise self._error

    def check_capacity(self, n_sequences: int) -> None:
        if isinstance(self._error, Overloaded):
            raise self._error


@asynccontextmanager
async def over(*engines: Engine) -> AsyncIterator[FallbackEngine]:
    engine = FallbackEngine([Member(f"vendor-{number}", each) for number, each in enumerate(engines)])
    try:
        yield engine
    finally:
        await engine.aclose()


async def test_the_first_answers_while_it_can() -> None:
    first, second = EchoEngine(), EchoEngine(context=99)
    async with over(first, second) as engine:
        assert (await complete(engine, REQUEST)).text() == "hihi"
        assert (first.stats().completion_tokens, second.stats().completion_tokens) == (4, 0)
        assert engine.fingerprint == first.fingerprint
        assert engine.stats().fallbacks == 0


@pytest.mark.parametrize(
    "broken",
    [
        pytest.param(lambda: Refusing(FULL), id="full"),
        pytest.param(lambda: Refusing(DOWN), id="refuses"),
        pytest.param(lambda: BreakingEngine(DOWN, after=0), id="fails before the first event"),
        pytest.param(lambda: BreakingEngine(EngineFailed("broke"), after=0), id="any engine's failure"),
    ],
)
async def test_the_next_answers_where_nothing_has_come_yet(broken: Callable[[], Engine]) -> None:
    second = EchoEngine(context=99)
    async with over(broken(), broken(), second) as engine:
        with capture_logs() as lines:
            assert (await complete(engine, REQUEST)).text() == "hihi"
        assert second.stats().completion_tokens == 4
        assert engine.fingerprint == second.fingerprint
        assert engine.stats().fallbacks == 2
    assert [line["vendor"] for line in lines if "next vendor" in line["event"]] == ["vendor-0", "vendor-1"]


async def test_an_answer_that_has_begun_stays_where_it_is() -> None:
    second = EchoEngine()
    async with over(BreakingEngine(DOWN, after=1), second) as engine:
        with pytest.raises(UpstreamFailed):
            await complete(engine, REQUEST)
        assert second.stats().prompt_tokens == 0


async def test_a_client_s_mistake_is_one_everywhere() -> None:
    second = EchoEngine()
    async with over(BreakingEngine(InvalidRequest("bad"), after=0), second) as engine:
        with pytest.raises(InvalidRequest):
            await complete(engine, REQUEST)
        assert second.stats().prompt_tokens == 0


async def test_without_anybody_left_the_last_one_s_failure_is_told() -> None:
    async with over(Refusing(FULL), BreakingEngine(DOWN, after=0)) as engine:
        with pytest.raises(UpstreamFailed):
            await complete(engine, REQUEST)
    async with over(BreakingEngine(DOWN, after=0), Refusing(FULL)) as engine:
        with pytest.raises(Overloaded):
            await complete(engine, REQUEST)


async def test_room_at_one_of_them_is_enough() -> None:
    async with over(Refusing(FULL), EchoEngine()) as engine:
        engine.check_capacity(3)
    async with over(Refusing(FULL), Refusing(Overloaded("full too", retry_after=1))) as engine:
        with pytest.raises(Overloaded) as refused:
            engine.check_capacity(3)
    assert refused.value.retry_after == 7


async def test_leaving_cancels_whoever_answers() -> None:
    second = EchoEngine(token_delay=60)
    async with over(BreakingEngine(DOWN, after=0), second) as engine:
        async with engine.generate(REQUEST) as generation:
            await until_prompt_is_done(generation)
            assert second.stats().running == 1
        await eventually(lambda: second.stats().running == 0)


def told(**changes: object) -> Capabilities:
    return replace(CAPABILITIES, **changes)  # type: ignore[arg-type]


def together(*capabilities: Capabilities) -> Capabilities:
    return FallbackEngine([Member("m", ScriptedEngine(capabilities=each)) for each in capabilities]).capabilities


def test_together_they_can_do_what_each_of_them_can() -> None:
    can = together(
        told(context=100, max_logprobs=20, n_slots=2, lacks={"seed": "first."}),
        told(context=60, max_logprobs=5, n_slots=3, lacks={"seed": "second.", "top_k": "second."}),
    )
    assert can == Capabilities(
        context=60,
        max_logprobs=5,
        reproducible=False,
        prefix_cache=False,
        n_slots=5,
        exact_tokens=True,
        lacks={"seed": "first.", "top_k": "second."},
    )


def test_a_context_that_nobody_knows_does_not_count() -> None:
    assert together(told(context=UNKNOWN_CONTEXT), told(context=60)).context == 60
    assert together(told(context=UNKNOWN_CONTEXT), told(context=UNKNOWN_CONTEXT)).context == UNKNOWN_CONTEXT


class Saying(ScriptedEngine):
    """Has the statistics it is given."""

    def __init__(self, stats: EngineStats) -> None:
        super().__init__()
        self._stats = stats

    def stats(self) -> EngineStats:
        return self._stats


@pytest.mark.parametrize(
    ("states", "whole"),
    [
        (("unreachable", "ready"), "ready"),
        (("unreachable", "unreachable"), "unreachable"),
        (("failed", "unreachable"), "unreachable"),
        (("closed", "closed"), "closed"),
    ],
)
def test_the_whole_is_as_well_as_its_best_member(states: tuple[str, ...], whole: str) -> None:
    members = [Member(state, Saying(EngineStats(state=state))) for state in states]
    assert FallbackEngine(members).stats().state == whole


def test_statistics_add_up() -> None:
    behind = [UpstreamStats(name, "closed", 1, 0, 0) for name in ("a", "b")]
    members = [
        Member(one.vendor, Saying(EngineStats(running=1, prompt_tokens=5, queue_seconds=wait, upstreams=(one,))))
        for one, wait in zip(behind, (0.5, 0.25), strict=True)
    ]
    stats = FallbackEngine(members).stats()
    assert (stats.running, stats.prompt_tokens, stats.queue_seconds) == (2, 10, 0.5)
    assert stats.upstreams == tuple(behind)


ANSWER: list[Event] = [PromptDone(0, None), Finished(0, "length", 0, 0.0, 0)]


def refuse() -> None:
    raise FULL


async def test_a_member_that_refuses_as_late_as_on_entering_is_passed_over() -> None:
    full, free = ScriptedEngine(on_enter=refuse), ScriptedEngine(lambda request: ANSWER)
    async with over(full, free) as engine:
        async with engine.generate(REQUEST) as generation:
            assert [event async for event in generation] == ANSWER
        assert engine.stats().fallbacks == 1
    assert full.generations[0].left
