"""Tokens that a sequence may be about to sample: what followed where its text was alike before.

A guess is computed with the sequence's next token, as rows of the same step, and taken as far as it is what the sampler
draws. So it changes no answer, only how many steps that takes. Pure; engine thread only.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

ALIKE = 3
"""Tokens that must be alike for what follows them to be a guess."""

LONGEST_COMPARED = 32
PLACES_COMPARED = 4
"""Of all places where `ALIKE` tokens are as they are now, so many of the latest are compared further back."""

MOST_GUESSED = 15
"""Tokens of a guess: with the one before them the rows that kernels compute at once."""

PREDICTED = 10**6
"""`n_alike` of a guess that the request itself predicts."""

ROW_COST = 0.2
"""What a row more takes, in steps of one row: 0.14 on the default model, 0.15 on Qwen2.5-Coder-0.5B, and sampling
(docs/performance-notes.md)."""

MOST_INDEXED = 16384
"""Tokens at the end of a prompt in which guesses are found: the engine's thread reads them before the first one."""


class PastTexts:
    """Where in a text that does not grow each `ALIKE` tokens are. Shared by all candidates of a request."""

    def __init__(self, tokens: NDArray[np.int32]) -> None:
        """`tokens`: (n,)."""
        self.tokens: list[int] = tokens.tolist()

    @cached_property
    def _places(self) -> dict[tuple[int, int, int], list[int]]:
        """Behind which places each `ALIKE` tokens are; made when first asked for, half a microsecond a token."""
        found: dict[tuple[int, int, int], list[int]] = {}
        start = max(0, len(self.tokens) - MOST_INDEXED)
        for place in range(start + ALIKE, len(self.tokens) + 1):
            a, b, c = self.tokens[place - ALIKE : place]
            found.setdefault((a, b, c), []).append(place)
        return found

    def ends(self, last: tuple[int, int, int]) -> list[int]:
        """Behind which tokens the `ALIKE` last ones are, the latest place first; at most `PLACES_COMPARED`."""
        return self._places.get(last, [])[: -PLACES_COMPARED - 1 : -1]


@dataclass(frozen=True, slots=True)
class Guess:
    """What may follow."""

    tokens: list[int]
    n_alike: int
    """Tokens before them that are as they were where the guess was found."""


NO_GUESS = Guess([], 0)


class GrowingText:
    """A prompt and what a candidate has sampled so far, in which it finds guesses."""

    def __init__(self, prompt: PastTexts) -> None:
        self._prompt = prompt
        self._n_prompt = len(prompt.tokens)
        self._sampled: list[int] = []
        self._ends: dict[tuple[int, int, int], int] = {}
        """The latest place behind `ALIKE` tokens of which some were sampled; not the end, until it is passed."""

    def grow_to(self, sampled: Sequence[int]) -> None:
        """Take what was sampled since the last call; `sampled` is all of it."""
        for token in sampled[len(self._sampled) :]:
            end = self._n_prompt + len(self._sampled)
            if end >= ALIKE and self._sampled:
                self._ends[self._last(end)] = end
            self._sampled.append(token)

    def guess(self, most: int) -> Guess:
        """The `most` tokens at most that followed the last time that the text was as it is at its end, or nothing."""
        end = self._n_prompt + len(self._sampled)
        if end < ALIKE or most < 1:
            return NO_GUESS
        last = self._last(end)
        places = self._prompt.ends(last)
        if last in self._ends:
            places.insert(0, self._ends[last])
        found = [(self._n_alike(place, end), place) for place in places if place < end]
        if not found:
            return NO_GUESS
        n_alike, place = max(found)
        tokens: list[int] = []
        for offset in range(most):
            # Where the text repeats itself the guess does too.
            at = place + offset
            tokens.append(self._token(at) if at < end else tokens[at - end])
        return Guess(tokens, n_alike)

    def _token(self, place: int) -> int:
        return self._prompt.tokens[place] if place < self._n_prompt else self._sampled[place - self._n_prompt]

    def _last(self, end: int) -> tuple[int, int, int]:
        return self._token(end - 3), self._token(end - 2), self._token(end - 1)

    def _n_alike(self, place: int, end: int) -> int:
        n = ALIKE
        most = min(place, LONGEST_COMPARED)
        while n < most and self._token(place - n - 1) == self._token(end - n - 1):
            n += 1
        return n


class Odds:
    """How likely the next token of a guess is what is sampled, from how long its beginning was alike."""

    _BUCKETS = (4, 6, 9, 17, PREDICTED)
    """Least `n_alike` of each kind of guess but the first."""
    _FIRST = (0.4, 0.5, 0.7, 0.85, 0.92, 0.92)
    _WEIGHT = 16.0
    """What is known at first counts like so many tokens."""
    _MEMORY = 256.0
    """Tokens of a kind that are remembered."""

    def __init__(self) -> None:
        self._tried = [self._WEIGHT] * len(self._FIRST)
        self._taken = [self._WEIGHT * odds for odds in self._FIRST]

    def of(self, n_alike: int) -> float:
        """Between 0 and 1."""
        kind = self._kind(n_alike)
        return self._taken[kind] / self._tried[kind]

    def note(self, n_alike: int, n_taken: int, n_guessed: int) -> None:
        """Of a guess of so many tokens the first `n_taken` were drawn; those after the next one say nothing."""
        kind = self._kind(n_alike)
        fade = 1.0 - 1.0 / self._MEMORY
        for place in range(min(n_taken + 1, n_guessed)):
            self._tried[kind] = self._tried[kind] * fade + 1.0
            self._taken[kind] = self._taken[kind] * fade + (place < n_taken)

    def _kind(self, n_alike: int) -> int:
        return sum(n_alike >= least for least in self._BUCKETS)


def worth_guessing(odds: Sequence[float], most: int) -> int:
    """How many tokens of a guess each of some sequences should have, so that a step gives most for its time.

    `odds`: of each, that a token of its guess is drawn if all before it were. A step of r rows takes 1 + `ROW_COST`
    (r - 1), and gives a token for each row that is no guess. A row more for each sequence is worth it while those give
    more for their time than the step does.
    """
    n_rows = len(odds)
    tokens, cost, likely = float(n_rows), 1.0 + ROW_COST * (n_rows - 1), [1.0] * n_rows
    for n in range(most):
        likely = [before * each for before, each in zip(likely, odds, strict=True)]
        if sum(likely) * cost < ROW_COST * n_rows * tokens:
            return n
        tokens += sum(likely)
        cost += ROW_COST * n_rows
    return most
