from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from afterword.text.stops import StopAutomaton, StopMatcher, Stops, shared_stops


def run(stops: Sequence[str], pieces: Sequence[str], *, include_stop: bool = False) -> tuple[str, bool]:
    """All the text that gets visible, and whether a stop ended it."""
    matcher = StopMatcher(Stops(stops, include_stop=include_stop))
    shown = ""
    for piece in pieces:
        text, stopped = matcher.push(piece)
        shown += text
        if stopped:
            return shown, True
    return shown + matcher.flush(), False


def expected(stops: Sequence[str], text: str, *, include_stop: bool = False) -> tuple[str, bool]:
    """The rule on the whole text, by brute force: earliest end, then earliest start."""
    for end in range(1, len(text) + 1):
        starts = [end - len(stop) for stop in stops if text[:end].endswith(stop)]
        if starts:
            return text[: end if include_stop else min(starts)], True
    return text, False


def expected_hold(stops: Sequence[str], text: str) -> int:
    lengths = range(max(map(len, stops)), 0, -1)
    return next((n for n in lengths if n <= len(text) and any(s.startswith(text[-n:]) for s in stops)), 0)


@pytest.mark.parametrize(
    ("stops", "pieces", "result"),
    [
        pytest.param(["\n"], ["one\ntwo"], ("one", True), id="inside-a-piece"),
        pytest.param(["END"], ["aE", "N", "Db"], ("a", True), id="across-pieces"),
        pytest.param(["bcd", "c"], ["abcd"], ("ab", True), id="earliest-end-wins-over-list-order"),
        pytest.param(["c", "bc", "abc"], ["xabc"], ("x", True), id="earliest-start-wins-a-tie"),
        pytest.param(["aab"], ["aaab"], ("a", True), id="overlapping-start"),
        pytest.param(["abcx", "bcd"], ["abcd"], ("a", True), id="failed-long-stop-hides-no-short-one"),
        pytest.param(["abab"], ["aba"], ("aba", False), id="unfinished-stop-is-text"),
        pytest.param(["é€"], ["xé", "€"], ("x", True), id="not-ascii"),
        pytest.param([], ["any", "thing"], ("anything", False), id="no-stops"),
        pytest.param(["x", "x"], ["ax"], ("a", True), id="same-stop-twice"),
        pytest.param(["a"], ["a"], ("", True), id="nothing-before-it"),
    ],
)
def test_the_match_that_ends_first_wins(stops: list[str], pieces: list[str], result: tuple[str, bool]) -> None:
    assert run(stops, pieces) == result


@pytest.mark.parametrize(
    ("stops", "pieces", "text"),
    [
        pytest.param(["END"], ["aE", "NDb"], "aEND", id="stays"),
        pytest.param(["bcd", "c"], ["abcd"], "abc", id="ends-where-the-first-match-ends"),
    ],
)
def test_included_stop_stays_and_nothing_after_it(stops: list[str], pieces: list[str], text: str) -> None:
    assert run(stops, pieces, include_stop=True) == (text, True)


@pytest.mark.parametrize(
    ("stops", "pieces", "shown"),
    [
        pytest.param(["END"], ["a", "E", "N", "x"], ["a", "", "", "ENx"], id="released-when-it-fails"),
        pytest.param(["aab"], ["a", "a", "a"], ["", "", "a"], id="shorter-prefix-stays-held"),
        pytest.param(["x" * 200], ["hello ", "world"], ["hello ", "world"], id="long-stop-delays-nothing-else"),
        pytest.param(["x" * 200], ["ax", "xb"], ["a", "xxb"], id="long-stop-holds-only-its-prefix"),
        pytest.param(["ab", "bcd"], ["xbc"], ["x"], id="longest-prefix-of-any-stop"),
    ],
)
def test_only_what_may_begin_a_stop_is_held(stops: list[str], pieces: list[str], shown: list[str]) -> None:
    matcher = StopMatcher(Stops(stops))
    assert [matcher.push(piece) for piece in pieces] == [(text, False) for text in shown]


STOPS = st.lists(st.text("ab€", min_size=1, max_size=4), min_size=1, max_size=4)
PIECES = st.lists(st.text("ab€", max_size=4), max_size=8)


@given(STOPS, PIECES, st.booleans())
def test_result_does_not_depend_on_the_pieces(stops: list[str], pieces: list[str], include_stop: bool) -> None:
    assert run(stops, pieces, include_stop=include_stop) == expected(stops, "".join(pieces), include_stop=include_stop)


@given(STOPS, PIECES)
def test_held_text_is_the_longest_prefix_of_a_stop(stops: list[str], pieces: list[str]) -> None:
    matcher = StopMatcher(Stops(stops))
    pushed, shown = "", ""
    for piece in pieces:
        text, stopped = matcher.push(piece)
        if stopped:
            return
        pushed, shown = pushed + piece, shown + text
        assert pushed[: len(shown)] == shown
        assert len(pushed) - len(shown) == expected_hold(stops, pushed)


@given(st.integers(1, 300))
def test_long_common_prefixes_keep_their_stops_apart(length: int) -> None:
    automaton = StopAutomaton(["a" * length + "b", "a" * length + "c"])
    state = 0
    for _ in range(length):
        state = automaton.step(state, "a")
    assert automaton.depth(state) == length
    assert automaton.cut(automaton.step(state, "b")) == length + 1
    assert automaton.cut(automaton.step(state, "c")) == length + 1


def test_long_hold_released_one_character_at_a_time_is_complete() -> None:
    pieces = ["a"] * 100_000
    assert run(["a" * 50_000 + "b", "c"], [*pieces, "c"]) == ("a" * 100_000, True)


def test_nothing_may_follow_a_stop() -> None:
    matcher = StopMatcher(Stops(["a"]))
    matcher.push("a")
    with pytest.raises(AssertionError):
        matcher.push("b")


def test_who_has_the_same_stops_has_the_same_automaton() -> None:
    first = shared_stops(("a", "b"), include_stop=False)
    assert shared_stops(("a", "b"), include_stop=False) is first
    assert shared_stops(("a", "b"), include_stop=True) is not first
    assert shared_stops(("b", "a"), include_stop=False) is not first
    assert first.automaton is first.automaton


def test_http_22_what_finds_stops_is_made_when_a_text_is_searched() -> None:
    stops = Stops(["a" * 8000])
    StopMatcher(stops)
    assert stops._automaton is None
    assert StopMatcher(stops).push("b") == ("b", False)
    assert stops._automaton is not None
