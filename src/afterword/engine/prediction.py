"""How much of what a client predicted of a completion is in it (docs/rules.md#prediction). Pure.

It follows from the tokens of both alone: not from what was computed in which step.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Sequence
from copy import copy
from typing import Self

FOUND_AGAIN = 3
"""Tokens in a row that must be as predicted for a completion that has left its prediction to be back in it."""


class Predicted:
    """The tokens that were predicted, for all candidates of a request."""

    __slots__ = ("_places", "tokens")

    def __init__(self, tokens: Sequence[int]) -> None:
        """Some microseconds for ten tokens."""
        self.tokens = tokens
        self._places: defaultdict[tuple[int, ...], list[int]] = defaultdict(list)
        for place in range(len(tokens) - FOUND_AGAIN + 1):
            self._places[tuple(tokens[place : place + FOUND_AGAIN])].append(place)

    def find(self, alike: tuple[int, ...], start: int) -> int | None:
        """The first place from `start` on that has those `FOUND_AGAIN` tokens."""
        places = self._places.get(alike, [])
        found = bisect_left(places, start)
        return places[found] if found < len(places) else None


class Prediction:
    """One candidate's way along the tokens that were predicted."""

    __slots__ = ("_last", "_n_left", "_predicted", "at", "n_accepted")

    def __init__(self, predicted: Predicted) -> None:
        self._predicted = predicted
        self.at = 0
        """The predicted token that is expected next: the end, where there is none."""
        self.n_accepted = 0
        """Predicted tokens that were sampled."""
        self._last: tuple[int, ...] = ()
        """Up to `FOUND_AGAIN` tokens that were sampled since it left the prediction."""
        self._n_left = 0
        """Where it left, or has been at latest."""

    def expected(self, most: int) -> Sequence[int]:
        """The next predicted tokens; none if the completion has left the prediction."""
        return self._predicted.tokens[self.at : self.at + most]

    @property
    def n_rejected(self) -> int:
        """Predicted tokens that were not sampled, so far."""
        return len(self._predicted.tokens) - self.n_accepted

    def fork(self) -> Self:
        """Another one that begins alike."""
        return copy(self)

    def take(self, token: int) -> None:
        """The next token was sampled."""
        tokens = self._predicted.tokens
        if self.at < len(tokens) and tokens[self.at] == token:
            self.at += 1
            self._n_left = self.at
            self.n_accepted += 1
            return
        if self.at < len(tokens):
            self._last = ()
        self.at = len(tokens)
        self._last = (*self._last, token)[-FOUND_AGAIN:]
        place = self._predicted.find(self._last, self._n_left)
        if place is not None:
            self.at = self._n_left = place + FOUND_AGAIN
            self.n_accepted += FOUND_AGAIN
            self._last = ()
