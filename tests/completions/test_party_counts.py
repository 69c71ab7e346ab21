from contextlib import ExitStack

import pytest
from tests.completions.scripted import completion

from afterword.completions.completion import Completion
from afterword.completions.party_counts import PartyCounts
from afterword.engine.echo import EchoEngine
from afterword.engine.line import Claim
from afterword.engine.trace import NO_TRACE
from afterword.errors import NeverFits, Overloaded


def asked(party: str, n: int) -> Completion:
    return completion(prompt="x", n=n).sent(NO_TRACE, Claim(party))


class Engines:
    """One engine of 4 slots and 96 places to wait, and who is there."""

    def __init__(self) -> None:
        self.engine = EchoEngine(n_slots=4, max_waiting=96)
        self.counts = PartyCounts()
        self.stack = ExitStack()

    def enter(self, party: str, n: int) -> None:
        self.stack.enter_context(self.counts.counted(asked(party, n), self.engine))
        self.engine._tracker.capacity.acquire(n)


def test_a_party_leaves_room_for_others() -> None:
    engines = Engines()
    for _ in range(80):
        engines.enter("a", 1)
    with pytest.raises(Overloaded, match="This client has 80 sequences running or waiting already; with 1 more"):
        engines.enter("a", 1)
    engines.enter("b", 10)
    with pytest.raises(Overloaded, match="This client has 10 sequences"):
        engines.enter("b", 9)


def test_who_has_nothing_may_have_all() -> None:
    engines = Engines()
    engines.enter("a", 100)
    with pytest.raises(Overloaded, match="The engine holds 100 sequences"):
        engines.enter("b", 1)


def test_what_never_fits_never_fits_and_what_would_alone_is_only_refused() -> None:
    engines = Engines()
    with pytest.raises(NeverFits):
        engines.enter("a", 101)
    engines.enter("a", 60)
    with pytest.raises(Overloaded, match="This client has 60") as refused:
        engines.enter("a", 30)
    assert type(refused.value) is Overloaded


def test_nothing_is_kept_of_who_has_left() -> None:
    engines = Engines()
    engines.enter("a", 50)
    engines.enter("b", 5)
    engines.stack.close()
    assert not engines.counts._held
