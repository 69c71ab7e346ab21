import asyncio

import pytest

from afterword.engine.room import Room
from afterword.errors import Overloaded


class Line:
    """Those who want a turn, and who of them has it now."""

    def __init__(self, room: Room) -> None:
        self._room = room
        self.running: list[str] = []
        self._tasks: dict[str, asyncio.Task[None]] = {}

    async def come(self, name: str, n: int) -> None:
        self._tasks[name] = asyncio.create_task(self._run(name, n))
        await self.settle()

    async def go(self, name: str) -> None:
        self._tasks[name].cancel()
        await self.settle()

    async def settle(self) -> None:
        for _ in range(3):
            await asyncio.sleep(0)

    async def _run(self, name: str, n: int) -> None:
        async with self._room.turn(n):
            self.running.append(name)
            try:
                await asyncio.Event().wait()
            finally:
                self.running.remove(name)


async def test_the_first_who_came_runs_first() -> None:
    line = Line(Room(4, max_waiting=10))
    await line.come("first", 3)
    await line.come("big", 2)
    await line.come("small", 1)
    assert line.running == ["first"]
    await line.go("first")
    assert line.running == ["big", "small"]


async def test_more_sequences_than_places_run_alone() -> None:
    line = Line(room := Room(2, max_waiting=10))
    await line.come("big", 5)
    await line.come("next", 1)
    assert (line.running, room.n_running) == (["big"], 5)
    await line.go("big")
    assert (line.running, room.n_running) == (["next"], 1)


async def test_whoever_leaves_while_waiting_is_passed_over() -> None:
    line = Line(room := Room(1, max_waiting=5))
    for name in ("first", "second", "third"):
        await line.come(name, 1)
    await line.go("second")
    await line.go("first")
    assert (line.running, room.n_running) == (["third"], 1)


async def test_whoever_is_cancelled_with_the_turn_just_won_gives_it_on() -> None:
    line = Line(room := Room(1, max_waiting=5))
    for name in ("first", "second", "third"):
        await line.come(name, 1)
    line._tasks["first"].cancel()
    await asyncio.sleep(0)
    await line.go("second")
    assert (line.running, room.n_running) == (["third"], 1)


def test_places_and_waiting_room_together_are_the_limit() -> None:
    room = Room(2, max_waiting=3)
    for _ in range(5):
        room.enter(1)
    with pytest.raises(Overloaded, match="holds 5 sequences and has room for 5; 1 more do not fit"):
        room.enter(1)
    room.leave(1)
    room.reserve(1)
    with pytest.raises(Overloaded):
        room.reserve(2)


def test_who_is_refused_is_told_to_come_back_after_the_usual_wait() -> None:
    room = Room(1, max_waiting=0)
    for _ in range(100):
        room.waited(7.0)
    with pytest.raises(Overloaded) as refused:
        room.reserve(2)
    assert refused.value.retry_after == 7
