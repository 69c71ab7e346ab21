import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import Self

import pytest
from tests.completions.scripted import ScriptedEngine, ScriptedGeneration, completion

from afterword.completions.assemble import Assembler, join
from afterword.completions.completion import Completion
from afterword.completions.deadline import TIMEOUT, _Until, run_until
from afterword.completions.run import CompletionEvents
from afterword.engine.echo import EchoEngine
from afterword.engine.events import Chunk, Event, Finished, PromptDone, SampledToken, Started
from afterword.engine.request import GenerationRequest
from afterword.errors import AfterwordError, DeadlineExceeded, EngineFailed

DONE = PromptDone(0, None)
LATER = 1e9
"""Seconds that no test takes."""


def now() -> float:
    return asyncio.get_running_loop().time()


def chunk(index: int, n_tokens: int, logprob: float | None = None) -> Chunk:
    tokens = () if logprob is None else (SampledToken(65, n_tokens, logprob, ()),)
    return Chunk(index, "a", tokens, n_tokens)


def says(*events: Event | AfterwordError) -> ScriptedEngine:
    return ScriptedEngine(lambda request: events)


async def cut_after(n: int, asked: Completion, engine: ScriptedEngine) -> list[tuple[int, Event]]:
    """The events of a request whose deadline passes after so many of them."""
    async with run_until(asked, engine, now() + LATER) as events:
        assert isinstance(events, _Until)
        seen = [await anext(events) for _ in range(n)]
        events._at = now()
        return seen + [item async for item in events]


async def test_what_has_not_ended_ends_with_what_there_is() -> None:
    engine = says(DONE, chunk(0, 1), chunk(1, 1), chunk(1, 2), Finished(1, "stop", 2, 0.0, 0), chunk(0, 9))
    seen = await cut_after(5, completion(n=3, max_tokens=20), engine)
    assert [event for _, event in seen[5:]] == [Finished(0, TIMEOUT, 1, 0.0, 0), Finished(2, TIMEOUT, 0, 0.0, 0)]
    assert engine.generations[0].ended == [0, 2]
    assert engine.generations[0].left


async def test_the_best_are_chosen_by_what_there_is() -> None:
    script = (DONE, chunk(0, 1, -3.0), chunk(1, 1, -1.0), chunk(1, 2, -2.0), chunk(0, 2, -1.5))
    asked = completion(best_of=2, max_tokens=20)
    assembler = Assembler(asked)
    deltas = [delta for i, event in await cut_after(5, asked, says(*script)) for delta in assembler.fold(i, event)]
    [best] = join(deltas)
    assert ([best.text, best.finish_reason], assembler.usage().completion_tokens) == (["aa", TIMEOUT], 4)


@pytest.mark.parametrize(
    ("n_seen", "script", "n_prompts"),
    [
        pytest.param(0, (), 1, id="nothing-has-begun"),
        pytest.param(1, (Started(), DONE), 1, id="the-prompt-is-not-read"),
        pytest.param(1, (DONE,), 1, id="no-token"),
    ],
)
async def test_without_a_token_there_is_no_answer(n_seen: int, script: Sequence[Event], n_prompts: int) -> None:
    with pytest.raises(DeadlineExceeded):
        await cut_after(n_seen, completion(prompt=["x"] * n_prompts), says(*script))


async def test_without_one_of_the_prompts_there_is_no_answer() -> None:
    def script(request: GenerationRequest) -> Sequence[Event]:
        return (DONE, chunk(0, 1)) if request.prompt_index == 0 else ()

    with pytest.raises(DeadlineExceeded):
        await cut_after(2, completion(prompt=["x", "y"], max_tokens=9), ScriptedEngine(script))


async def test_a_request_that_waits_is_ended_while_it_waits() -> None:
    engine = ScriptedEngine()
    with pytest.raises(DeadlineExceeded):
        async with run_until(completion(), engine, now() + 0.01) as events:
            await anext(events)
    assert engine.generations[0].left


async def test_a_request_that_is_not_taken_in_time_has_none() -> None:
    class Hesitant(ScriptedGeneration):
        async def __aenter__(self) -> Self:
            await asyncio.Event().wait()
            return self

    class Slow(ScriptedEngine):
        def generate(self, request: GenerationRequest) -> ScriptedGeneration:
            self.generations.append(Hesitant(request, ()))
            return self.generations[-1]

    engine = Slow()
    with pytest.raises(DeadlineExceeded):
        await AsyncExitStack().enter_async_context(run_until(completion(), engine, now() + 0.01))
    assert engine.generations[0].left


async def test_a_request_that_is_done_is_none_the_worse() -> None:
    script = (DONE, chunk(0, 1), Finished(0, "stop", 1, 0.0, 0))
    seen = await cut_after(3, completion(), says(*script))
    assert [event for _, event in seen] == list(script)


async def test_what_fails_before_the_deadline_fails() -> None:
    with pytest.raises(EngineFailed):
        await cut_after(2, completion(), says(DONE, EngineFailed("broken")))


async def test_what_had_come_and_was_not_read_is_answered_and_nothing_later() -> None:
    asked = completion(prompt="abc", max_tokens=50, temperature=0)
    engine = EchoEngine(token_delay=0)
    async with run_until(asked, engine, now() + LATER) as events:
        assert isinstance(events, _Until)
        seen: list[Event] = []
        while not any(isinstance(event, Chunk) for event in seen):
            seen.append((await anext(events))[1])
        for _ in range(5):
            await asyncio.sleep(0)
        events._at = now()
        seen += [event async for _, event in events]
        assert list(events.unread()) == []
    last = seen[-1]
    assert isinstance(last, Finished)
    assert last.reason == TIMEOUT
    assert 1 < last.n_tokens < 50
    assert len("".join(event.text for event in seen if isinstance(event, Chunk))) == last.n_tokens


async def test_without_a_deadline_nothing_is_in_between() -> None:
    async with run_until(completion(), says(DONE), None) as events:
        plain: CompletionEvents = events
        assert not isinstance(plain, _Until)
