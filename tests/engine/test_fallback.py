"""One model at several places: who is asked when one refuses."""

from tests.completions.scripted import ScriptedEngine, completion

from afterword.engine.events import Event, Finished, PromptDone
from afterword.engine.fallback import FallbackEngine, Member
from afterword.errors import Overloaded

ANSWER: list[Event] = [PromptDone(0, None), Finished(0, "length", 0, 0.0, 0)]


def refuse() -> None:
    raise Overloaded("full", retry_after=1)


async def test_a_member_that_refuses_as_late_as_on_entering_is_passed_over() -> None:
    full, free = ScriptedEngine(on_enter=refuse), ScriptedEngine(lambda request: ANSWER)
    engine = FallbackEngine([Member("full", full), Member("free", free)])
    async with engine.generate(completion(prompt="x").generations[0]) as generation:
        assert [event async for event in generation] == ANSWER
    assert engine.stats().fallbacks == 1
    assert full.generations[0].left
