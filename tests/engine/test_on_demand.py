"""Models that are loaded when they are asked for: who waits for whom, who makes room, what becomes of failures."""

import asyncio
import math
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from afterword.engine.base import Capabilities
from afterword.engine.echo import EchoEngine
from afterword.engine.loaded_models import LoadedModels
from afterword.engine.on_demand import ModelSource, OnDemandEngine
from afterword.errors import ConfigurationError, EngineClosed, EngineLost, Overloaded

EXPECTED = Capabilities(context=0, max_logprobs=0, reproducible=False, prefix_cache=False, n_slots=1)


class Machine:
    """Models of one byte each, with room for some of them."""

    def __init__(self, room: int) -> None:
        self.models = LoadedModels()
        self.models.budget = room
        self.loads: list[str] = []
        """Names of those that were loaded, in order."""
        self.most_at_once = 0
        self._engines: dict[str, OnDemandEngine] = {}

    def model(
        self,
        name: str,
        *,
        keep_alive: float = 1000,
        need: int = 1,
        max_waiting: int = 100,
        load: Callable[[], None] = lambda: None,
    ) -> OnDemandEngine:
        def loaded(_n_bytes: int) -> EchoEngine:
            load()
            self.loads.append(name)
            self.most_at_once = max(self.most_at_once, 1 + sum(one.is_loaded for one in self._engines.values()))
            return EchoEngine()

        source = ModelSource(name, lambda: need, loaded, keep_alive, EXPECTED, max_waiting)
        engine = self._engines[name] = OnDemandEngine(source, self.models)
        return engine

    def loaded(self) -> set[str]:
        return {name for name, engine in self._engines.items() if engine.is_loaded}


def _wait(event: threading.Event) -> None:
    assert event.wait(60)


async def use(engine: OnDemandEngine) -> None:
    await engine.wait_and_hold()
    engine.release()


async def until(happened: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not happened():
            await asyncio.sleep(0)


async def test_a_model_is_loaded_once_for_all_who_ask_for_it() -> None:
    machine = Machine(1)
    engine = machine.model("a")
    assert (engine.hold(), engine.is_loaded, engine.stats().state) == (False, False, "unloaded")
    waiting = [asyncio.create_task(engine.wait_and_hold()) for _ in range(5)]
    await until(lambda: engine.stats().state == "starting")
    assert engine.stats().waiting == 5
    await asyncio.gather(*waiting)
    assert machine.loads == ["a"]
    assert (engine.stats().state, engine.hold()) == ("ready", True)
    assert engine.tokenizer.n_vocab > 0


async def test_the_one_unused_for_longest_makes_room() -> None:
    machine = Machine(2)
    a, b, c = (machine.model(name) for name in "abc")
    for engine in (a, b, a, c):
        await use(engine)
    assert machine.loaded() == {"a", "c"}
    assert machine.most_at_once == 2


async def test_a_model_in_use_stays_until_its_request_has_ended() -> None:
    machine = Machine(1)
    a, b = machine.model("a"), machine.model("b")
    await a.wait_and_hold()
    waiting = asyncio.create_task(b.wait_and_hold())
    await until(lambda: not a.takes_requests)
    assert machine.loaded() == {"a"}
    a.release()
    await waiting
    assert machine.loaded() == {"b"}


async def test_who_comes_to_a_model_that_is_to_go_waits_for_its_next_turn() -> None:
    machine = Machine(1)
    a, b = machine.model("a"), machine.model("b")
    await a.wait_and_hold()
    order: list[str] = []

    async def note(engine: OnDemandEngine, name: str) -> None:
        await engine.wait_and_hold()
        order.append(name)
        engine.release()

    first = asyncio.create_task(note(b, "b"))
    await until(lambda: not a.takes_requests)
    later = asyncio.create_task(note(a, "a"))
    await asyncio.sleep(0)
    a.release()
    await asyncio.gather(first, later)
    assert (order, machine.loads) == (["b", "a"], ["a", "b", "a"])


async def test_another_that_becomes_idle_first_makes_room_and_the_chosen_one_goes_on() -> None:
    machine = Machine(2)
    a, b, c = (machine.model(name) for name in "abc")
    await a.wait_and_hold()
    await b.wait_and_hold()
    waiting = asyncio.create_task(c.wait_and_hold())
    await until(lambda: not a.takes_requests)
    again = asyncio.create_task(a.wait_and_hold())
    await asyncio.sleep(0)
    b.release()
    await asyncio.gather(waiting, again)
    assert machine.loaded() == {"a", "c"}
    assert machine.loads == ["a", "b", "c"]


async def test_a_large_model_has_fewer_beside_it() -> None:
    machine = Machine(3)
    a, b, large, huge = machine.model("a"), machine.model("b"), machine.model("l", need=2), machine.model("h", need=9)
    for engine in (a, b, large):
        await use(engine)
    assert machine.loaded() == {"b", "l"}
    await use(huge)
    assert machine.loaded() == {"h"}


async def test_a_model_that_stays_makes_room_for_none() -> None:
    machine = Machine(2)
    stays, a, b = machine.model("s", keep_alive=math.inf), machine.model("a"), machine.model("b")
    for engine in (stays, a, b):
        await use(engine)
    assert machine.loaded() == {"s", "b"}
    large = machine.model("l", need=2)
    with pytest.raises(EngineLost, match=r"'l' cannot be served: Models that stay loaded .* take the memory"):
        await large.wait_and_hold()
    assert "s" in machine.loaded()


async def test_a_model_goes_when_it_was_not_used_for_its_time() -> None:
    machine = Machine(1)
    engine = machine.model("a", keep_alive=0)
    await engine.wait_and_hold()
    assert engine.hold()
    engine.release()
    await asyncio.sleep(0)
    assert engine.is_loaded
    engine.release()
    await until(lambda: not engine.is_loaded)
    assert engine.stats().state == "unloaded"
    await use(engine)
    assert machine.loads == ["a", "a"]


async def test_a_model_that_is_used_again_in_time_stays() -> None:
    machine = Machine(1)
    engine = machine.model("a", keep_alive=0)
    await engine.wait_and_hold()
    engine.release()
    assert engine.hold()
    for _ in range(3):
        await asyncio.sleep(0)
    assert engine.is_loaded


async def test_a_failure_is_told_to_all_who_wait_and_others_are_served() -> None:
    def fail() -> None:
        raise ConfigurationError("The file is broken.")

    machine = Machine(1)
    broken, other = machine.model("x", load=fail), machine.model("a")
    told = await asyncio.gather(*(broken.wait_and_hold() for _ in range(3)), return_exceptions=True)
    await use(other)
    assert {type(error) for error in told} == {EngineLost}
    assert {str(error) for error in told} == {"The model 'x' cannot be served: The file is broken."}
    # Who asks again at once gets the same answer, and nobody makes room for it.
    with pytest.raises(EngineLost) as again:
        await broken.wait_and_hold()
    assert again.value.retry_after == 10
    assert (machine.loaded(), broken.stats().problem) == ({"a"}, str(again.value))


async def test_what_nobody_expected_is_told_without_its_cause() -> None:
    def fail() -> None:
        raise RuntimeError("secret")

    with pytest.raises(EngineLost, match=r"^The model 'x' cannot be served: The server's log has the cause\.$"):
        await Machine(1).model("x", load=fail).wait_and_hold()


async def test_who_no_longer_waits_is_not_loaded_for() -> None:
    machine = Machine(1)
    a, b = machine.model("a"), machine.model("b")
    await a.wait_and_hold()
    waiting = asyncio.create_task(b.wait_and_hold())
    await until(lambda: not a.takes_requests)
    gone = asyncio.create_task(machine.model("c").wait_and_hold())
    await asyncio.sleep(0)
    for task in (waiting, gone):
        task.cancel()
    a.release()
    await asyncio.gather(waiting, gone, return_exceptions=True)
    await use(b)
    assert "c" not in machine.loads


async def test_few_may_wait() -> None:
    machine = Machine(1)
    go = threading.Event()
    engine = machine.model("a", max_waiting=1, load=lambda: _wait(go))
    waiting = asyncio.create_task(engine.wait_and_hold())
    await asyncio.sleep(0)
    with pytest.raises(Overloaded, match="1 requests wait for the model 'a' to be loaded; one more does not fit"):
        await engine.wait_and_hold()
    go.set()
    await waiting


async def test_closing_tells_those_who_wait_and_frees_what_is_loaded_meanwhile() -> None:
    machine = Machine(1)
    go = threading.Event()
    engine = machine.model("a", load=lambda: _wait(go))
    waiting = asyncio.create_task(engine.wait_and_hold())
    await until(lambda: engine.stats().state == "starting")
    closing = asyncio.create_task(engine.aclose())
    with pytest.raises(EngineClosed):
        await waiting
    go.set()
    await closing
    assert (engine.is_loaded, engine.stats().state) == (False, "closed")
    with pytest.raises(EngineClosed):
        await engine.wait_and_hold()


async def test_counts_go_on_when_a_model_is_loaded_again(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(1)
    engine = machine.model("a", keep_alive=0)
    plain: Any = EchoEngine.stats
    figures: Any = {"completion_tokens": 7, "step_rows": (1, 2)}
    for expected in (7, 14):
        await engine.wait_and_hold()

        monkeypatch.setattr(EchoEngine, "stats", lambda self: replace(plain(self), **figures))
        assert engine.stats().completion_tokens == expected
        assert engine.stats().step_rows == (expected // 7, 2 * expected // 7)
        engine.release()
        await until(lambda: not engine.is_loaded)
    assert engine.stats().completion_tokens == 14


async def test_many_models_under_load_lose_no_request() -> None:
    machine = Machine(3)
    engines = [machine.model(str(number)) for number in range(20)]
    served = [0] * len(engines)

    async def client(number: int) -> None:
        for turn in range(20):
            which = (number * 7 + turn * turn) % len(engines)
            engine = engines[which]
            if not engine.hold():
                await engine.wait_and_hold()
            await asyncio.sleep(0)
            assert engine.is_loaded
            served[which] += 1
            engine.release()

    await asyncio.gather(*(client(number) for number in range(12)))
    assert sum(served) == 12 * 20
    assert machine.most_at_once <= 3
    assert len(machine.loaded()) == 3
