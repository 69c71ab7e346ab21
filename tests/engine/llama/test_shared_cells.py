"""Slots that share fewer cells than all of them have room for: everybody finishes, with the same answers.

`Harness` checks after each step that what runs and what is kept fit together.
"""

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.engine.llama.harness import Harness, Reading, ask, words

from afterword.engine.line import Claim
from afterword.engine.request import GenerationRequest

CAPACITY = 700


def sharing(n_slots: int, n_cells: int, *, can_cut: bool = True) -> Harness:
    harness = Harness(n_slots, capacity=CAPACITY, can_cut=can_cut)
    harness.kv.n_cells = n_cells
    return harness


def n_cached(reading: Reading) -> int:
    assert reading.prompt is not None
    return reading.prompt.n_cached


def kept(harness: Harness) -> list[int]:
    """Tokens of the slots that nobody uses."""
    return [slot.n for slot in harness.kv if not slot.running]


def test_a_sequence_waits_until_there_are_cells_for_all_it_may_come_to() -> None:
    harness = sharing(4, 700)
    first = harness.add(ask(words(300), max_tokens=40))[1]
    second = harness.add(ask(words(300, 1), max_tokens=100))[1]
    harness.step()
    assert len(harness.scheduler.running) == 1, "340 and 400 are more than 700"
    while first.finished(0) is None:
        harness.step()
    harness.finish()
    assert second.tokens(0) == Harness(1).complete(ask(words(300, 1), max_tokens=100)).tokens(0)


def test_short_ones_that_come_later_do_not_pass() -> None:
    harness = sharing(4, 700)
    harness.add(ask(words(300), max_tokens=40))
    long = harness.add(ask(words(300, 1), max_tokens=100))[1]
    for book in (2, 3):
        harness.add(ask(words(20, book), max_tokens=5))
    for _ in range(5):
        harness.step()
    assert len(harness.scheduler.running) == 1
    harness.finish()
    assert long.finished(0) is not None


def test_what_is_kept_is_emptied_for_what_runs_longest_unused_first() -> None:
    harness = sharing(4, 700)
    for book in range(3):
        harness.complete(ask(words(200, book), max_tokens=1))
    assert sorted(kept(harness)) == [0, 200, 200, 200]
    harness.complete(ask(words(150, 5), max_tokens=1))
    assert sorted(kept(harness)) == [0, 150, 200, 200]
    assert n_cached(harness.complete(ask(words(200, 2), max_tokens=1))) == 199
    assert n_cached(harness.complete(ask(words(200, 0), max_tokens=1))) == 0


def test_the_prefix_that_is_reused_is_the_last_to_go() -> None:
    harness = sharing(4, 700)
    for book in (0, 1, 2):
        harness.complete(ask(words(200, book), max_tokens=1))
    assert n_cached(harness.complete(ask(words(300, 0), max_tokens=200))) == 200


def test_a_party_that_holds_all_cells_makes_room_for_another() -> None:
    harness = sharing(8, 700)
    for number in range(3):
        harness.add(ask(words(30, number), claim=Claim("a", str(number)), max_tokens=190))
    for _ in range(10):
        harness.step()
    assert len(harness.scheduler.running) == 3
    _, reading = harness.add(ask(words(100, 5), claim=Claim("b"), max_tokens=100))
    for _ in range(20):
        harness.step()
    assert [s.group.claim.party for s in harness.scheduler.running].count("b") == 1
    harness.finish()
    assert reading.tokens(0) == Harness(1).complete(ask(words(100, 5), max_tokens=100)).tokens(0)


REQUESTS = st.lists(
    st.builds(
        lambda book, n, max_tokens, n_candidates, scored, party: ask(
            words(n, book),
            max_tokens=max_tokens,
            n_candidates=n_candidates,
            prompt_logprobs=1 if scored else None,
            claim=Claim(party),
        ),
        st.integers(0, 2),
        st.integers(1, 400),
        st.integers(0, 60),
        st.integers(1, 4),
        st.booleans(),
        st.sampled_from("ab"),
    ),
    min_size=1,
    max_size=8,
)


@settings(deadline=None, max_examples=40)
@given(REQUESTS, st.integers(1, 6), st.integers(500, 1500), st.integers(0, 5), st.booleans())
def test_everybody_finishes_with_the_answer_he_gets_alone(
    requests: list[GenerationRequest], n_slots: int, n_cells: int, n_between: int, can_cut: bool
) -> None:
    harness = sharing(n_slots, n_cells, can_cut=can_cut)
    readings: list[Reading] = []
    for request in requests:
        readings.append(harness.add(request)[1])
        for _ in range(n_between):
            harness.step()
    harness.finish()
    for request, reading in zip(requests, readings, strict=True):
        alone = Harness(1, can_cut=can_cut).complete(request)
        assert reading.scores() == alone.scores()
        for index in range(request.n_candidates):
            assert reading.tokens(index) == alone.tokens(index)
