"""What is taken off tokens that would go on with a repetition: DRY, and `no_repeat_ngram_size`."""

from collections.abc import Callable, Sequence
from typing import Final, Protocol, Self

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from afterword.engine.sampling.matches import BreakFinder, Matches
from afterword.fields.repeats import Repeats

_LONGEST: Final = 128
"""Tokens. Longer repetitions cost no more than these: far more than any model can outweigh."""

_ANY: Final = 2**30
"""Tokens: more than any text has, so that a longer repetition that is asked about is one that never comes."""

_MOST: Final = 1e9
"""Most that is taken off a logit, so that it stays finite."""

Pieces = Callable[[int], bytes]
"""The bytes of each token."""


class Recurrence(Protocol):
    """What is taken off, as a text grows."""

    def found(self) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        """The tokens concerned, and what is taken off the logit of each."""
        ...

    def accept(self, token: int) -> None:
        """The text goes on with `token`."""
        ...

    def copy(self) -> Self:
        """The same for another text that begins alike."""
        ...


def recurrences(repeats: Repeats, prompt: Sequence[int], piece: Pieces) -> list[Recurrence]:
    """Those that a request has, at the end of its prompt."""
    found: list[Recurrence] = []
    if repeats.dry_multiplier > 0:
        found.append(Dry(repeats, prompt, piece))
    if repeats.no_repeat_ngram_size > 0:
        found.append(NoRepeatedNgram(repeats.no_repeat_ngram_size, prompt))
    return found


class Dry(Recurrence):
    """Don't repeat yourself (Weidmann, 2024: text-generation-webui#5677).

    A token that came after the text's last k tokens before costs multiplier * base ** (k - allowed length), for the
    largest such k that is at least the allowed length. No repetition reaches over a breaker, and none costs anything.
    """

    def __init__(self, repeats: Repeats, prompt: Sequence[int], piece: Pieces) -> None:
        self._repeats = repeats
        self._breakers = BreakFinder(repeats.dry_sequence_breakers, piece)
        self._allowed = min(repeats.dry_allowed_length, _ANY)
        longest = max(_LONGEST, self._allowed)
        self._matches = Matches(prompt, self._breakers.read(prompt), longest)

    @override
    def found(self) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        repeats = self._repeats
        tokens, lengths = self._matches.followers(self._allowed, repeats.dry_range)
        counts = np.array([not self._breakers.would_break(int(token)) for token in tokens], dtype=np.bool_)
        tokens, lengths = tokens[counts], lengths[counts]
        beyond = (lengths - self._allowed).astype(np.float64)
        with np.errstate(over="ignore"):
            costs = repeats.dry_multiplier * repeats.dry_base**beyond
        return tokens, np.minimum(costs, _MOST).astype(np.float32)

    @override
    def accept(self, token: int) -> None:
        self._matches.append(token, breaks=self._breakers.would_break(token))
        self._breakers.append(token)

    @override
    def copy(self) -> Self:
        other = object.__new__(type(self))
        other._repeats, other._allowed = self._repeats, self._allowed
        other._breakers, other._matches = self._breakers.copy(), self._matches.copy()
        return other


class NoRepeatedNgram(Recurrence):
    """Bans tokens that would complete a row of n tokens that the prompt or the completion has already."""

    def __init__(self, n: int, prompt: Sequence[int]) -> None:
        self._n = min(n, _ANY)
        self._matches = Matches(prompt, np.zeros(len(prompt), dtype=np.bool_), max(self._n - 1, 1))

    @override
    def found(self) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        tokens, _ = self._matches.followers(self._n - 1, None)
        return tokens, np.full(tokens.size, np.inf, dtype=np.float32)

    @override
    def accept(self, token: int) -> None:
        self._matches.append(token, breaks=False)

    @override
    def copy(self) -> Self:
        other = object.__new__(type(self))
        other._n, other._matches = self._n, self._matches.copy()
        return other
