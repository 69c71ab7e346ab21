"""The places at a vendor."""

import pytest

from afterword.engine.upstream.room import Room
from afterword.errors import Overloaded


async def test_the_first_who_came_runs_first() -> None:
    room = Room(4, max_waiting=10)
    running, big, small = room.enter(3), room.enter(2), room.enter(1)
    assert [ticket.admitted.done() for ticket in (running, big, small)] == [True, False, False]
    room.leave(running)
    assert [ticket.admitted.done() for ticket in (big, small)] == [True, True]


async def test_more_sequences_than_places_run_alone() -> None:
    room = Room(2, max_waiting=10)
    big, next_one = room.enter(5), room.enter(1)
    assert [ticket.admitted.done() for ticket in (big, next_one)] == [True, False]
    room.leave(big)
    assert next_one.admitted.done()


async def test_places_and_waiting_room_together_are_the_limit() -> None:
    room = Room(2, max_waiting=3)
    tickets = [room.enter(1) for _ in range(5)]
    with pytest.raises(Overloaded, match="holds 5 sequences and has room for 5; 1 more do not fit"):
        room.enter(1)
    room.leave(tickets[4])
    room.reserve(1)
    with pytest.raises(Overloaded):
        room.reserve(2)


async def test_giving_a_place_back_twice_gives_it_once() -> None:
    room = Room(1, max_waiting=5)
    first, second, third = room.enter(1), room.enter(1), room.enter(1)
    room.leave(first)
    room.leave(first)
    assert second.admitted.done()
    assert not third.admitted.done()


async def test_whoever_leaves_while_waiting_is_passed_over() -> None:
    room = Room(1, max_waiting=5)
    first, second, third = room.enter(1), room.enter(1), room.enter(1)
    room.leave(second)
    room.leave(first)
    assert third.admitted.done()
