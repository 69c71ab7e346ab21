"""Stop texts, found in a text that arrives in pieces. Knows no tokens and no bytes.

The match that ends first wins, ties by earliest start (docs/rules.md#stop). An Aho-Corasick automaton over code
points finds it: its state is the longest suffix of the text that is a prefix of some stop, which is also exactly what
has to be held back.
"""

from collections import deque
from collections.abc import Sequence
from copy import copy
from typing import Self
from weakref import WeakValueDictionary

_ROOT = 0


class StopAutomaton:
    """Several texts that are looked for at once. Immutable.

    Building costs time and memory in proportion to the total length of the stops, in code points.
    """

    __slots__ = ("_children", "_cut", "_depth", "_fallback")

    def __init__(self, stops: Sequence[str], *, include_stop: bool = False) -> None:
        """`stops`: none empty. `include_stop`: a match leaves the stop in the text."""
        assert all(stops), "an empty stop matches everything"
        self._children: list[dict[str, int]] = [{}]
        self._depth = [0]
        self._fallback = [_ROOT]
        self._cut: list[int | None] = [None]
        for stop in stops:
            self._cut[self._insert(stop)] = 0 if include_stop else len(stop)
        self._link()

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to find."""
        return len(self._depth) == 1

    def step(self, state: int, character: str) -> int:
        """The state after one more character; the initial state is 0."""
        while True:
            following = self._children[state].get(character)
            if following is not None:
                return following
            if state == _ROOT:
                return _ROOT
            state = self._fallback[state]

    def cut(self, state: int) -> int | None:
        """How many code points to remove from the end of the text; None if no stop ends here."""
        return self._cut[state]

    def depth(self, state: int) -> int:
        """Length of the longest suffix of the text that is a prefix of a stop, in code points."""
        return self._depth[state]

    def _insert(self, stop: str) -> int:
        state = _ROOT
        for character in stop:
            following = self._children[state].get(character)
            if following is None:
                following = len(self._depth)
                self._children[state][character] = following
                self._children.append({})
                self._depth.append(self._depth[state] + 1)
                self._fallback.append(_ROOT)
                self._cut.append(None)
            state = following
        return state

    def _link(self) -> None:
        """Set the fallbacks in order of depth: each is computed from that of its parent."""
        states = deque(self._children[_ROOT].values())
        while states:
            parent = states.popleft()
            for character, state in self._children[parent].items():
                fallback = self.step(self._fallback[parent], character)
                self._fallback[state] = fallback
                # A stop of the state's full length starts earlier than one that ends it, so it keeps its own cut.
                if self._cut[state] is None:
                    self._cut[state] = self._cut[fallback]
                states.append(state)


class Stops:
    """The stops of one request, for all of its candidates.

    The automaton is built when the first text is searched: a request that waits for its turn takes nothing.
    """

    __slots__ = ("__weakref__", "_automaton", "_include_stop", "_stops")

    def __init__(self, stops: Sequence[str], *, include_stop: bool = False) -> None:
        """As those of `StopAutomaton`."""
        self._stops = stops
        self._include_stop = include_stop
        self._automaton: StopAutomaton | None = None

    @property
    def automaton(self) -> StopAutomaton:
        """What finds them."""
        if self._automaton is None:
            self._automaton = StopAutomaton(self._stops, include_stop=self._include_stop)
        return self._automaton


_IN_USE: WeakValueDictionary[tuple[tuple[str, ...], bool], Stops] = WeakValueDictionary()


def shared_stops(stops: tuple[str, ...], *, include_stop: bool) -> Stops:
    """The same object for all that use these stops at the time: the prompts of a batch need one automaton."""
    return _IN_USE.setdefault((stops, include_stop), Stops(stops, include_stop=include_stop))


class StopMatcher:
    """One text being searched. Not thread-safe.

    The text so far is what was returned plus what is held; the held part is the longest suffix that is a proper
    prefix of a stop. Amortised constant time per character, whatever the stops are.
    """

    __slots__ = ("_held", "_state", "_stopped", "_stops")

    def __init__(self, stops: Stops) -> None:
        self._stops = stops
        self._state = _ROOT
        self._held: deque[str] = deque()
        self._stopped = False

    def fork(self) -> Self:
        """The same for another text that begins alike."""
        other = copy(self)
        other._held = self._held.copy()
        return other

    def push(self, text: str) -> tuple[str, bool]:
        """The text that cannot be part of a stop any more, and whether a stop was found.

        After a stop the returned text ends where the stop starts (or ends, with `include_stop`), what follows it is
        dropped, and nothing may be pushed.
        """
        assert not self._stopped, "the text has ended"
        automaton = self._stops.automaton
        if automaton.is_empty:
            return text, False
        state = self._state
        for position, character in enumerate(text, start=1):
            state = automaton.step(state, character)
            cut = automaton.cut(state)
            if cut is not None:
                self._stopped = True
                return self._release(text[:position], cut), True
        self._state = state
        return self._release(text, automaton.depth(state)), False

    def flush(self) -> str:
        """The text ends here: what was held, now visible."""
        self._state = _ROOT
        return self._release("", 0)

    def _release(self, text: str, n_held: int) -> str:
        """Everything held and `text`, except the last `n_held` characters, which stay held."""
        if n_held == 0 and not self._held:
            return text
        held = self._held
        held.extend(text)
        return "".join([held.popleft() for _ in range(len(held) - n_held)])
