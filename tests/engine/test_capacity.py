import asyncio

import pytest

from afterword.engine.capacity import Capacity
from afterword.engine.line import ANYBODY, Claim
from afterword.errors import NeverFits, Overloaded


class Requests:
    """Tasks that each hold some slots until they are cancelled; `running` names those that have them, in order."""

    def __init__(self, capacity: Capacity) -> None:
        self._capacity = capacity
        self.running: list[str] = []
        self.tasks: dict[str, asyncio.Task[None]] = {}

    async def start(self, name: str, n: int, claim: Claim = ANYBODY) -> None:
        self.tasks[name] = asyncio.create_task(self._run(name, n, claim))
        await self._settle()

    async def cancel(self, name: str) -> None:
        self.tasks[name].cancel()
        await self._settle()

    async def _settle(self) -> None:
        for _ in range(3):
            await asyncio.sleep(0)

    async def _run(self, name: str, n: int, claim: Claim) -> None:
        async with self._capacity.slots(n, claim):
            self.running.append(name)
            try:
                await asyncio.Event().wait()
            finally:
                self.running.remove(name)


async def test_slots_are_given_in_order_of_arrival() -> None:
    requests = Requests(Capacity(4, max_waiting=10))
    await requests.start("first", 3)
    await requests.start("big", 2)
    await requests.start("small", 1)
    assert requests.running == ["first"]
    await requests.cancel("first")
    assert requests.running == ["big", "small"]


async def test_slots_are_given_in_turn_where_parties_differ() -> None:
    requests = Requests(Capacity(2, max_waiting=10))
    for number in range(4):
        await requests.start(f"a{number}", 1, Claim("a", str(number)))
    await requests.start("b", 1, Claim("b"))
    await requests.start("urgent", 1, Claim("c", priority=-1))
    await requests.cancel("a0")
    assert requests.running == ["a1", "urgent"]
    await requests.cancel("a1")
    assert requests.running == ["urgent", "b"]
    await requests.cancel("urgent")
    assert requests.running == ["b", "a2"]


async def test_more_sequences_than_slots_run_alone() -> None:
    requests = Requests(capacity := Capacity(2, max_waiting=10))
    await requests.start("big", 5)
    await requests.start("next", 1)
    assert (requests.running, capacity.n_running) == (["big"], 5)
    await requests.cancel("big")
    assert (requests.running, capacity.n_running) == (["next"], 1)


async def test_a_request_cancelled_while_it_waits_is_skipped() -> None:
    requests = Requests(capacity := Capacity(1, max_waiting=5))
    for name in ("first", "second", "third"):
        await requests.start(name, 1)
    await requests.cancel("second")
    await requests.cancel("first")
    assert (requests.running, capacity.n_running) == (["third"], 1)


async def test_a_request_cancelled_just_as_it_gets_its_slot_frees_it() -> None:
    requests = Requests(capacity := Capacity(1, max_waiting=5))
    for name in ("first", "second", "third"):
        await requests.start(name, 1)
    requests.tasks["first"].cancel()
    await asyncio.sleep(0)
    await requests.cancel("second")
    assert (requests.running, capacity.n_running) == (["third"], 1)


def test_slots_and_queue_together_are_the_limit() -> None:
    capacity = Capacity(2, max_waiting=3)
    for _ in range(5):
        capacity.acquire(1)
    with pytest.raises(Overloaded, match="holds 5 sequences and has room for 5; 1 more do not fit"):
        capacity.acquire(1)
    capacity.release(1)
    capacity.check(1)
    with pytest.raises(Overloaded):
        capacity.check(2)


def test_a_refusal_gives_the_recent_wait_as_its_retry_time() -> None:
    capacity = Capacity(1, max_waiting=0)
    for _ in range(100):
        capacity.note_wait(7.0)
    capacity.acquire(1)
    with pytest.raises(Overloaded) as refused:
        capacity.check(1)
    assert refused.value.retry_after == 7


def test_http_27_what_never_fits_is_said_to_be_so_however_idle_the_engine_is() -> None:
    capacity = Capacity(2, max_waiting=3)
    capacity.check(5)
    with pytest.raises(NeverFits, match=r"asks for 6 sequences .* at most 5 at once: 2 that run and 3 that wait"):
        capacity.check(6)
    capacity.acquire(1)
    with pytest.raises(Overloaded) as refused:
        capacity.check(5)
    assert type(refused.value) is Overloaded
