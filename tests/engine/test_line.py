from collections import Counter
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from afterword.engine.line import Claim, Line

CLAIMS = [
    Claim(party, request, priority) for party in ("a", "b", "c") for request in ("x", "y") for priority in (0, 0, -1)
]


@dataclass(slots=True)
class Books:
    """What `Line` should say, found by looking at everything."""

    waiting: list[tuple[Claim, int]]
    held: Counter[Claim]
    party_moved: dict[tuple[int, str], int]
    """When a party came into the line, or got or lost a place."""
    request_moved: dict[Claim, int]

    def next(self, passed_over: set[int]) -> int | None:
        left = [(claim, item) for claim, item in self.waiting if item not in passed_over]
        return min(left, key=lambda one: self._rank(one[0]), default=(None, None))[1]

    def _rank(self, claim: Claim) -> tuple[int, ...]:
        return (
            claim.priority,
            self._of_party(claim),
            self.party_moved[claim.priority, claim.party],
            self.held[claim],
            self.request_moved[claim],
        )

    def note(self, claim: Claim, now: int, *, moved: bool) -> None:
        party = claim.priority, claim.party
        waits = {one for one, _ in self.waiting}
        if moved or party not in self.party_moved:
            self.party_moved[party] = now
        if moved or claim not in self.request_moved:
            self.request_moved[claim] = now
        if claim not in waits and self.held[claim] == 0:
            del self.request_moved[claim]
        if self._of_party(claim) == 0 and not any((one.priority, one.party) == party for one in waits):
            del self.party_moved[party]

    def _of_party(self, claim: Claim) -> int:
        return sum(n for one, n in self.held.items() if (one.priority, one.party) == (claim.priority, claim.party))


@given(st.data())
def test_next_is_who_has_fewest_and_got_none_for_longest(data: st.DataObject) -> None:
    line: Line[int] = Line()
    books = Books([], Counter(), {}, {})
    for now in range(data.draw(st.integers(1, 40))):
        held = [claim for claim, n in books.held.items() if n > 0]
        choices = ["join"] + ["take", "leave"] * bool(books.waiting) + ["give back"] * bool(held)
        match data.draw(st.sampled_from(choices)):
            case "join":
                claim = data.draw(st.sampled_from(CLAIMS))
                line.join(claim, now)
                books.waiting.append((claim, now))
                books.note(claim, now, moved=False)
            case "leave":
                claim, item = data.draw(st.sampled_from(books.waiting))
                line.leave(claim, item)
                books.waiting.remove((claim, item))
                books.note(claim, now, moved=False)
            case "take":
                claim, item = next(one for one in books.waiting if one[1] == line.next())
                line.take(claim)
                line.leave(claim, item)
                books.held[claim] += 1
                books.waiting.remove((claim, item))
                books.note(claim, now, moved=True)
            case _:
                claim = data.draw(st.sampled_from(held))
                line.give_back(claim)
                books.held[claim] -= 1
                books.note(claim, now, moved=True)
        passed_over = (
            data.draw(st.sets(st.sampled_from([item for _, item in books.waiting]))) if books.waiting else set()
        )
        assert line.next(passed_over) == books.next(passed_over)
        assert all(line.held(claim)[1] == n for claim, n in books.held.items())


def test_what_is_put_back_waits_in_front_of_its_own_request_only() -> None:
    line: Line[str] = Line()
    line.join(Claim("a", "x"), "first")
    line.join(Claim("a", "x"), "second")
    line.join(Claim("b", "x"), "other")
    line.take(Claim("a", "x"))
    line.rejoin(Claim("a", "x"), "back")
    assert [line.next(), line.next({"other"}), line.next({"other", "back"})] == ["other", "back", "first"]


def test_firsts_are_one_of_each_party_in_their_turn() -> None:
    line: Line[str] = Line()
    for claim, item in ((Claim("a", "x"), "1"), (Claim("a", "y"), "2"), (Claim("b"), "3"), (Claim("c", "", -1), "4")):
        line.join(claim, item)
    line.take(Claim("a", "x"))
    assert list(line.firsts()) == ["4", "3", "2"]


@pytest.mark.parametrize("n_parties", [2, 5])
def test_a_party_is_not_overtaken_by_ever_new_ones(n_parties: int) -> None:
    line: Line[int] = Line()
    line.join(Claim("patient"), -1)
    held: list[Claim] = []
    for number in range(100):
        line.join(Claim(str(number)), number)
        if len(held) == n_parties:
            line.give_back(held.pop(0))
        item = line.next()
        assert item is not None
        if item == -1:
            return
        held.append(Claim(str(item)))
        line.take(held[-1])
        line.leave(held[-1], item)
    raise AssertionError("overtaken for ever")
