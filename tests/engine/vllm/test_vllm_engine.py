"""The engine over a core that says what it is told: what it tells its readers, and when it tells vLLM to stop."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
from tests.engine.vllm.fake_core import FakeCore
from tests.fakes import Told, complete, eventually, generation_request, until_prompt_is_done

from afterword.engine.base import Capabilities
from afterword.engine.events import Chunk, Event, Finished, PromptDone, Started
from afterword.engine.vllm.plan import Limits
from afterword.engine.vllm.vllm_engine import VllmEngine
from afterword.errors import EngineFailed, InvalidRequest, Overloaded
from afterword.tokens import ByteTokenizer


@asynccontextmanager
async def opened(core: FakeCore, *, n_slots: int = 4, max_waiting: int = 4) -> AsyncIterator[VllmEngine]:
    tokenizer = ByteTokenizer()
    capabilities = Capabilities(100, 5, reproducible=False, prefix_cache=True, n_slots=n_slots)
    limits = Limits(tokenizer.n_vocab, None, None)
    engine = VllmEngine(core, tokenizer, capabilities, "fp_0123456789", limits, max_waiting=max_waiting)
    try:
        yield engine
    finally:
        await engine.aclose()


def never(*indices: int) -> Callable[[object], bool]:
    """Hold plans with these numbers, counted in the order they are asked."""
    seen = iter(range(1000))
    return lambda _: next(seen) in indices


async def test_each_candidate_is_a_request_with_a_seed_of_its_own() -> None:
    async with opened(core := FakeCore()) as engine:
        told = await complete(engine, generation_request(b"p", n_candidates=3, max_tokens=3))
    assert [told.text(index) for index in range(3)] == ["abc"] * 3
    assert len({plan.seed for plan in core.asked}) == 3


async def test_stop_over_several_tokens_ends_vllms_work() -> None:
    async with opened(core := FakeCore()) as engine:
        told = await complete(engine, generation_request(b"p", max_tokens=10_000, stops=("ca",)))
        await eventually(lambda: core.n_open == 0)
    assert told.text() == "ab"
    assert told.finished() == Finished(0, "stop", 4, 0.0, 0)


async def test_tokens_after_a_stop_in_the_same_step_do_not_count() -> None:
    async with opened(FakeCore(at_once=8)) as engine:
        told = await complete(engine, generation_request(b"p", max_tokens=16, stops=("b",)))
        assert engine.stats().completion_tokens == 2
    assert (told.text(), told.finished().n_tokens) == ("a", 2)


async def test_nothing_to_sample_is_one_request_whose_token_is_thrown_away() -> None:
    async with opened(core := FakeCore()) as engine:
        told = await complete(engine, generation_request(b"p", n_candidates=3, max_tokens=0))
        assert engine.stats().completion_tokens == 0
        assert (engine.stats().running, engine.stats().waiting) == (0, 0)
    assert told.events == [Started(), PromptDone(1, None), *(Finished(i, "length", 0, 0.0, 0) for i in range(3))]
    assert len(core.asked) == 1


async def test_no_candidate_speaks_before_the_prompt_is_done() -> None:
    core = FakeCore()
    core.hold = never(0)
    async with opened(core) as engine, engine.generate(generation_request(b"p", n_candidates=2, max_tokens=2)) as told:
        await eventually(lambda: core.n_steps > 0)
        await engine.aclose()
        with pytest.raises(EngineFailed):
            await until_prompt_is_done(told)


async def test_reader_that_leaves_ends_all_candidates() -> None:
    core = FakeCore()
    core.hold = lambda _: True
    async with opened(core) as engine:
        async with engine.generate(generation_request(b"p", n_candidates=3)):
            await eventually(lambda: core.n_open == 3)
        await eventually(lambda: core.n_open == 0)
        await eventually(lambda: engine.stats().running == 0)
        assert engine.stats().cancelled == 3


async def test_reader_that_leaves_at_once_leaves_nothing() -> None:
    async with opened(core := FakeCore(), n_slots=40) as engine:
        for _ in range(20):
            async with engine.generate(generation_request(b"p", n_candidates=2)):
                pass
        await eventually(lambda: engine.stats().running + engine.stats().waiting == 0)
        assert core.n_open == 0


async def test_failure_reaches_the_reader_and_frees_its_sequences() -> None:
    async with opened(FakeCore(error=EngineFailed("broken"))) as engine:
        with pytest.raises(EngineFailed, match="broken"):
            await complete(engine, generation_request(b"p", n_candidates=2, max_tokens=5))
        await eventually(lambda: engine.stats().running == 0)
        assert engine.stats().state == "ready"


async def test_refusal_by_vllm_is_the_clients_to_hear() -> None:
    async with opened(FakeCore(error=InvalidRequest("no min_p here", param="min_p"))) as engine:
        with pytest.raises(InvalidRequest, match="no min_p here"):
            await complete(engine, generation_request(b"p", max_tokens=5))


async def test_an_error_nobody_expected_says_nothing_of_its_cause() -> None:
    async with opened(FakeCore(error=ZeroDivisionError("secret"))) as engine:
        with pytest.raises(EngineFailed, match="server's log") as failure:
            await complete(engine, generation_request(b"p", max_tokens=5))
    assert "secret" not in str(failure.value)
    assert isinstance(failure.value.__cause__, ZeroDivisionError)


async def test_vllm_that_stops_early_is_a_failure() -> None:
    async with opened(FakeCore(n_missing=1)) as engine:
        with pytest.raises(EngineFailed):
            await complete(engine, generation_request(b"p", max_tokens=5))


async def test_dead_core_takes_no_more_requests() -> None:
    core = FakeCore()
    async with opened(core) as engine:
        core.is_dead = True
        assert engine.stats().state == "failed"
        with pytest.raises(EngineFailed):
            engine.generate(generation_request(b"p"))


async def test_core_whose_thread_dies_leaves_nobody_waiting() -> None:
    core = FakeCore()
    core.hold = lambda _: True
    async with opened(core) as engine, engine.generate(generation_request(b"p")) as generation:
        await eventually(lambda: core.n_open == 1)
        core.die(SystemExit())
        with pytest.raises(EngineFailed):
            await until_prompt_is_done(generation)
        assert engine.stats().state == "failed"
        with pytest.raises(EngineFailed):
            engine.generate(generation_request(b"p"))


async def test_waiting_room_counts_what_vllm_cannot_run_yet() -> None:
    core = FakeCore()
    core.hold = lambda _: True
    async with opened(core, n_slots=2, max_waiting=1) as engine:
        async with engine.generate(generation_request(b"p", n_candidates=3)):
            assert (engine.stats().running, engine.stats().waiting) == (2, 1)
            with pytest.raises(Overloaded, match="has room for 3"):
                engine.generate(generation_request(b"p"))
        await eventually(lambda: engine.stats().running == 0)
        engine.check_capacity(3)
        with pytest.raises(Overloaded):
            engine.check_capacity(4)


async def test_candidate_that_is_ended_from_outside_is_dropped_and_the_others_go_on() -> None:
    async with opened(core := FakeCore(stalls=True)) as engine:
        events: list[Event] = []
        async with engine.generate(generation_request(b"p", n_candidates=2, max_tokens=6)) as generation:
            async for event in generation:
                events.append(event)
                if isinstance(event, Chunk) and event.index == 0:
                    generation.end(0)
                if isinstance(event, Finished) and event.index == 0:
                    core.go()
        await eventually(lambda: core.n_open == 0 and engine.stats().running == 0)
    told = Told(events)
    assert (told.text(0), told.finished(0)) == ("a", Finished(0, "content_filter", 1, 0.0, 0))
    assert (told.text(1), told.finished(1)) == ("abcabc", Finished(1, "length", 6, 0.0, 0))
