import asyncio

import pytest
from tests.completions.scripted import ScriptedEngine, completion

from afterword.completions.run import run
from afterword.engine.echo import EchoEngine
from afterword.engine.events import Chunk, Event, Finished, PromptDone, Started
from afterword.engine.request import GenerationRequest
from afterword.errors import AfterwordError, EngineFailed, Overloaded
from afterword.registry import ServedModel

DONE = PromptDone(0, None)


def chunk(text: str) -> Chunk:
    return Chunk(0, text, (), len(text))


def numbered(request: GenerationRequest) -> list[Event]:
    """As many chunks as the prompt's number, then the end."""
    return [DONE, *[chunk(str(i)) for i in range(request.prompt_index)], Finished(0, "length", 9, 0.0, 0)]


async def test_the_events_of_one_prompt_come_in_order() -> None:
    engine = ScriptedEngine(lambda request: [DONE, chunk("a"), chunk("b")])
    async with run(completion(prompt="x"), engine) as events:
        assert [item async for item in events] == [(0, DONE), (0, chunk("a")), (0, chunk("b"))]
    assert engine.generations[0].left


async def test_the_events_of_each_prompt_stay_in_order_when_merged() -> None:
    engine = ScriptedEngine(numbered)
    result = completion(prompt=["x"] * 5)
    async with run(result, engine) as events:
        seen = [item async for item in events]
    assert len(seen) == 0 + 1 + 2 + 3 + 4 + 2 * 5
    for number, request in enumerate(result.generations):
        assert [event for i, event in seen if i == number] == numbered(request)
    assert all(generation.left for generation in engine.generations)


async def test_a_busy_prompt_does_not_keep_a_quiet_one_back() -> None:
    def script(request: GenerationRequest) -> list[Event]:
        return [chunk(str(i)) for i in range(1000)] if request.prompt_index == 0 else [DONE]

    async with run(completion(prompt=["x"] * 4), ScriptedEngine(script)) as events:
        first = [await anext(events) for _ in range(12)]
    assert {number for number, _ in first} == {0, 1, 2, 3}


@pytest.mark.parametrize("n_prompts", [1, 3])
async def test_entering_submits_everything(n_prompts: int) -> None:
    engine = ScriptedEngine()
    async with run(completion(prompt=["x"] * n_prompts), engine):
        assert [g.request.prompt_index for g in engine.generations] == list(range(n_prompts))
        assert all(g.entered and not g.left for g in engine.generations)


async def test_no_prompt_is_waited_for_before_all_are_submitted() -> None:
    engine = ScriptedEngine()
    async with run(completion(prompt=["x"] * 3), engine):
        assert engine.submitted_when_entering == [3, 3, 3]


async def test_a_request_that_does_not_fit_is_refused_whole() -> None:
    engine = ScriptedEngine(room=5)
    with pytest.raises(Overloaded):
        await run(completion(prompt=["x", "y"], n=3), engine).__aenter__()
    assert engine.generations == []


async def test_a_refusal_halfway_cancels_what_was_queued() -> None:
    engine = ScriptedEngine(full_after=2)
    with pytest.raises(Overloaded):
        await run(completion(prompt=["x", "y", "z"]), engine).__aenter__()
    assert [generation.left for generation in engine.generations] == [True, True]


@pytest.mark.parametrize("n_prompts", [1, 3])
async def test_leaving_cancels_all(n_prompts: int) -> None:
    engine = ScriptedEngine()
    async with run(completion(prompt=["x"] * n_prompts), engine):
        pass
    assert all(generation.left for generation in engine.generations)
    assert asyncio.all_tasks() == {asyncio.current_task()}


@pytest.mark.parametrize("n_prompts", [1, 3])
async def test_a_cancelled_reader_cancels_all(n_prompts: int) -> None:
    engine = ScriptedEngine()
    waiting = asyncio.Event()

    async def read() -> None:
        async with run(completion(prompt=["x"] * n_prompts), engine) as events:
            waiting.set()
            await anext(events)

    reader = asyncio.create_task(read())
    await waiting.wait()
    reader.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reader
    assert all(generation.left for generation in engine.generations)
    assert asyncio.all_tasks() == {asyncio.current_task()}


@pytest.mark.parametrize("n_prompts", [1, 3])
async def test_an_error_in_one_ends_all(n_prompts: int) -> None:
    def script(request: GenerationRequest) -> list[Event | AfterwordError]:
        return [DONE, EngineFailed("broken")] if request.prompt_index == 0 else []

    engine = ScriptedEngine(script)
    seen: list[tuple[int, Event]] = []

    async def read() -> None:
        async with run(completion(prompt=["x"] * n_prompts), engine) as events:
            async for item in events:
                seen.append(item)

    with pytest.raises(EngineFailed, match="broken"):
        await read()
    assert seen == [(0, DONE)]
    assert all(generation.left for generation in engine.generations)
    assert asyncio.all_tasks() == {asyncio.current_task()}


@pytest.mark.parametrize("n_prompts", [1, 3])
async def test_a_candidate_is_ended_on_the_generation_of_its_prompt(n_prompts: int) -> None:
    engine = ScriptedEngine()
    async with run(completion(prompt=["x"] * n_prompts, n=4), engine) as running:
        running.end(n_prompts - 1, 2)
    assert [generation.ended for generation in engine.generations] == [[]] * (n_prompts - 1) + [[2]]


@pytest.mark.parametrize("n_prompts", [1, 3])
async def test_what_nobody_read_can_be_looked_at_after_leaving(n_prompts: int) -> None:
    engine = EchoEngine()
    asked = completion(engine_model(engine), prompt=["ab"] * n_prompts, max_tokens=5, temperature=0)
    async with run(asked, engine) as running:
        first = await anext(running)
        while engine.stats().running > 0:
            await asyncio.sleep(0)
    counted = dict.fromkeys(range(n_prompts), 0)
    for number, event in [first, *running.unread()]:
        if isinstance(event, Chunk | Finished):
            counted[number] = event.n_tokens
    assert counted == dict.fromkeys(range(n_prompts), 5)
    assert list(running.unread()) == []


async def test_looking_at_what_nobody_read_waits_for_nothing() -> None:
    engine = EchoEngine(token_delay=60)
    async with run(completion(engine_model(engine), prompt="ab", max_tokens=5, temperature=0), engine) as running:
        assert [type((await anext(running))[1]) for _ in range(2)] == [Started, PromptDone]
    [(_, event)] = running.unread()
    assert isinstance(event, Chunk)
    assert event.n_tokens == 1


def engine_model(engine: EchoEngine) -> ServedModel:
    return ServedModel("echo", engine, created=0)
