"""Slots and prompts in turn: nobody is held up by what another party, or another request, has sent (line.py, room.py).

Sequences make room for others and go on; `Harness` checks the books after each step, and the fake context that whoever
goes on has what it had.
"""

from collections import Counter
from unittest.mock import patch

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.engine.llama.harness import Harness, Reading, ask, words

from afterword.engine.line import Claim
from afterword.engine.llama import room
from afterword.engine.llama.arithmetic import FLOATS, INDEPENDENT, QUANTISED, Arithmetic
from afterword.engine.llama.sequence import Sequence
from afterword.engine.request import GenerationRequest

ARITHMETICS = {"quantised": QUANTISED, "floats": FLOATS, "independent": INDEPENDENT}
CLAIMS = st.builds(Claim, st.sampled_from("abcde"), st.sampled_from("xy"))
A, B = Claim("a", "1"), Claim("b", "1")


def asks(claim: Claim, n: int = 1, *, max_tokens: int = 64, n_prompt: int = 20, seed: int = 5) -> GenerationRequest:
    prompt = words(n_prompt, ord(claim.party[0]) % 8)
    return ask(prompt, claim=claim, n_candidates=n, max_tokens=max_tokens, seed=seed)


def shares(harness: Harness) -> Counter[Claim]:
    return Counter(sequence.group.claim for sequence in harness.scheduler.running)


def watch_swaps(harness: Harness) -> list[tuple[Sequence, Sequence]]:
    """Who left and who entered, filled as it happens."""
    swaps: list[tuple[Sequence, Sequence]] = []
    admission = harness.scheduler._admission
    swap = admission.swap

    def watched(running: list[Sequence]) -> room.Swap | None:
        done = swap(running)
        if done is not None:
            swaps.append((done.left, done.entered))
        return done

    patch.object(admission, "swap", watched).start()
    return swaps


def finish(harness: Harness, reading: Reading) -> tuple[int, int]:
    """Steps and rows until the request's first candidate has ended."""
    steps, rows = harness.scheduler.counters.steps, harness.runner.context.n_rows
    while reading.finished(0) is None:
        harness.step()
    return harness.scheduler.counters.steps - steps, harness.runner.context.n_rows - rows


@pytest.mark.parametrize("arithmetic", ARITHMETICS.values(), ids=ARITHMETICS)
@pytest.mark.parametrize(
    "newcomer", [pytest.param(B, id="of-another-key"), pytest.param(Claim("a", "9"), id="of-the-same-key")]
)
def test_gate_10_a_token_behind_four_requests_of_128(newcomer: Claim, arithmetic: Arithmetic) -> None:
    harness = Harness(16, arithmetic=arithmetic)
    for number in range(4):
        harness.add(asks(Claim("a", str(number)), 128))
    for _ in range(40):
        harness.step()
    _, reading = harness.add(asks(newcomer, max_tokens=1))
    steps, rows = finish(harness, reading)
    # A step that samples and one that reads its prompt, beside at most one other prompt's piece before it.
    assert steps <= 4
    assert rows <= 16 + 20 + 2 * 64


def test_gate_10_a_long_prompt_is_read_in_turn_with_those_of_another_key() -> None:
    harness = Harness(16)
    for number in range(15):
        harness.add(ask(words(1500, number % 7)[number:], claim=Claim("a", str(number)), max_tokens=8))
    harness.step()
    alone = Harness(16)
    n_alone = finish(alone, alone.add(ask(words(1500, 7), claim=B, max_tokens=1))[1])[1]
    n_rows = finish(harness, harness.add(ask(words(1500, 7), claim=B, max_tokens=1))[1])[1]
    assert n_rows <= 3 * n_alone


def test_slots_are_evened_out_and_then_left_alone() -> None:
    harness = Harness(16)
    swaps = watch_swaps(harness)
    for number in range(4):
        harness.add(asks(Claim("a", str(number)), 128, max_tokens=200))
    harness.step()
    assert set(shares(harness).values()) == {4}
    harness.add(asks(B, 128, max_tokens=200))
    for _ in range(120):
        harness.step()
    held = shares(harness)
    assert held == {B: 8} | {Claim("a", str(number)): 2 for number in range(4)}
    assert len(swaps) == 8
    assert {entered.group.claim for _, entered in swaps} == {B}


def test_one_prompt_is_not_held_up_by_short_ones_that_come_again_and_again() -> None:
    harness = Harness(4)
    _, reading = harness.add(ask(words(2000), claim=B, max_tokens=1))
    for number in range(400):
        if reading.finished(0) is not None:
            break
        prompt = words(60, 1 + number % 7)[number % 50 :]
        harness.add(ask(prompt, claim=Claim(f"a{number}"), max_tokens=1))
        harness.step()
    # Alone it takes 8 steps.
    assert harness.scheduler.counters.steps <= 3 * 8 + 4


def test_an_earlier_priority_goes_first_and_a_later_one_never_makes_room_for_it() -> None:
    harness = Harness(2)
    harness.add(asks(A, 2))
    harness.step()
    _, late = harness.add(asks(Claim("b", "1", 5), max_tokens=1))
    _, early = harness.add(asks(Claim("c", "1", -5), max_tokens=3))
    finish(harness, early)
    assert late.told == []
    # Alone: one step that reads and two that sample.
    assert harness.scheduler.counters.steps <= 1 + 2 * 3 + 1
    harness.finish()
    assert late.finished(0) is not None


def test_swaps_are_few() -> None:
    harness = Harness(2)
    swaps = watch_swaps(harness)
    harness.add(asks(A, 2, max_tokens=400))
    n_answered = 0
    for number in range(300):
        _, reading = harness.add(asks(Claim("b", str(number)), max_tokens=1, seed=number))
        finish(harness, reading)
        n_answered += 1
        if harness.scheduler.counters.steps > 300:
            break
    assert n_answered > 20
    assert len(swaps) <= harness.scheduler.counters.steps // room.APART


@pytest.mark.parametrize("can_cut", [True, False], ids=["cells", "states"])
@settings(max_examples=10)
@example(
    n_slots=3,
    crowd=[(Claim("a", "x"), 1), (Claim("d", "x"), 1), *((Claim("b", r), 1) for r in "xy"), (Claim("c", "x"), 1)],
)
@given(n_slots=st.integers(1, 3), crowd=st.lists(st.tuples(CLAIMS, st.integers(1, 4)), min_size=2, max_size=5))
def test_nobody_starves_however_long_the_others_take(
    can_cut: bool, n_slots: int, crowd: list[tuple[Claim, int]]
) -> None:
    """One slot is the worst case. There a turn is a step that reads and the quantum, or the steps between two swaps.

    A request whose party has another one gets every second turn of the party; the turns of all parties come between.
    """
    harness, quantum = Harness(n_slots, capacity=20_000, can_cut=can_cut), 4
    readings = [(claim, harness.add(asks(claim, n, max_tokens=2000))[1]) for claim, n in crowd]
    claims = {claim for claim, _ in readings}
    with patch.object(room, "QUANTUM", quantum):
        for _ in range(4):
            before = {claim: _sampled(readings, claim) for claim in claims}
            for _ in range(2 * len(claims) * (quantum + room.APART)):
                harness.step()
            assert [claim for claim in claims if _sampled(readings, claim) == before[claim]] == []


def _sampled(readings: list[tuple[Claim, Reading]], claim: Claim) -> int:
    return sum(len(reading.told) for other, reading in readings if other == claim)


@pytest.mark.parametrize(
    ("arithmetic", "can_cut"),
    [*((arithmetic, True) for arithmetic in ARITHMETICS.values()), (INDEPENDENT, False)],
    ids=[*ARITHMETICS, "states"],
)
@settings(max_examples=10)
@given(data=st.data())
def test_what_made_room_goes_on_to_the_same_bytes(arithmetic: Arithmetic, can_cut: bool, data: st.DataObject) -> None:
    harness = Harness(data.draw(st.integers(1, 4)), arithmetic=arithmetic, can_cut=can_cut)
    swaps = watch_swaps(harness)
    told: list[Reading] = []
    with patch.object(room, "QUANTUM", 3), patch.object(room, "APART", 1):
        for number in range(data.draw(st.integers(2, 6))):
            request = asks(
                Claim(data.draw(st.sampled_from("abc")), str(number), data.draw(st.sampled_from([0, 0, 1]))),
                data.draw(st.integers(1, 3)),
                max_tokens=data.draw(st.integers(1, 30)),
                n_prompt=data.draw(st.sampled_from([1, 30, 200, 600])),
                seed=number,
            )
            told.append(harness.add(request)[1])
            for _ in range(data.draw(st.integers(0, 6))):
                harness.step()
        harness.finish()
    for reading in told:
        alone = Harness(6, arithmetic=arithmetic, can_cut=can_cut).complete(reading.request)
        for index in range(reading.request.n_candidates):
            assert reading.tokens(index) == alone.tokens(index)
            assert reading.finished(index) == alone.finished(index)
    assert harness.scheduler._admission._n_parked == 0
    assert all(left.slot is None for left, _ in swaps)


def test_what_is_parked_is_forgotten_with_its_request() -> None:
    harness = Harness(2)
    swaps = watch_swaps(harness)
    group, _ = harness.add(asks(A, 2))
    harness.step()
    harness.add(asks(B))
    harness.step()
    [(left, _)] = swaps
    assert (harness.scheduler.n_waiting, left.parked is None) == (1, False)
    harness.cancel(group)
    assert (harness.scheduler.n_waiting, left.parked is None) == (0, True)
    harness.finish()


@settings(max_examples=30)
@given(data=st.data())
def test_any_candidate_can_be_ended_once_the_prompt_is_done(data: st.DataObject) -> None:
    harness = Harness(data.draw(st.integers(1, 3)))
    n_prompt = data.draw(st.sampled_from([1, 20, 40, 300]))
    group, reading = harness.add(asks(A, 5, n_prompt=n_prompt, max_tokens=30))
    _, other = harness.add(asks(B, 3, max_tokens=9, n_prompt=300))
    while not group.prompt_done:
        harness.step()
    for _ in range(data.draw(st.integers(0, 12))):
        harness.step()
    ended = data.draw(st.sets(st.integers(0, 4), min_size=1))
    for index in ended:
        sequence = group.sequences[index]
        if not sequence.candidate.finished:
            sequence.candidate.end()
            harness.scheduler.end(sequence)
            assert (sequence.slot, sequence.parked, sequence in group.waiting) == (None, None, False)
    harness.finish()
    assert {index for index in range(5) if reading.finished(index) is None} <= ended
    assert all(other.finished(index) is not None for index in range(3))
    assert (harness.kv.n_running, harness.scheduler._admission._n_parked) == (0, 0)


def test_what_is_parked_has_a_limit() -> None:
    harness = Harness(8, capacity=100)
    swaps = watch_swaps(harness)
    harness.add(asks(A, 8, max_tokens=40, n_prompt=50))
    for _ in range(20):
        harness.step()
    harness.add(asks(B, 8, max_tokens=40))
    for _ in range(15):
        harness.step()
    assert 0 < sum(len(left.parked.books.tokens) for left, _ in swaps if left.parked is not None) <= 100
    assert len(swaps) == 1
    harness.finish()


def test_of_states_fewer_are_parked_however_short_their_texts() -> None:
    counts = []
    for can_cut in (True, False):
        harness = Harness(2, capacity=4000, can_cut=can_cut, arithmetic=INDEPENDENT)
        for number in range(9):
            for _ in range(3):
                harness.add(asks(Claim("abcdefghi"[number], "1", -number), 2, max_tokens=400))
                for _ in range(4):
                    harness.step()
        admission = harness.scheduler._admission
        parked = [s for group in admission._line.firsts() for s in group.waiting if s.parked is not None]
        counts.append(len(parked))
        assert admission._n_parked == sum(len(s.parked.books.tokens) for s in parked if s.parked is not None)
    assert counts[0] > counts[1] == 5
