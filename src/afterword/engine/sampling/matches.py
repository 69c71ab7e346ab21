"""Where the end of a text was in it before: what DRY and `no_repeat_ngram_size` ask of the tokens so far."""

from collections.abc import Callable, Sequence
from typing import Self

import numpy as np
from numpy.typing import NDArray


class Matches:
    """For each place of a text, how many tokens before it are the same as the last ones of the text.

    A token that breaks belongs to no match. Lengths stop at `longest`. Engine thread only.
    """

    def __init__(self, tokens: Sequence[int], breaks: NDArray[np.bool_], longest: int) -> None:
        """`breaks`: (n,), whether each token breaks."""
        n = len(tokens)
        capacity = max(64, 2 * n)
        self._n = n
        self._longest = longest
        self._tokens = np.zeros(capacity, dtype=np.int32)
        self._breaks = np.zeros(capacity, dtype=np.bool_)
        self._lengths = np.zeros(capacity, dtype=np.int32)
        self._tokens[:n] = tokens
        self._breaks[:n] = breaks
        self._measure()

    def _measure(self) -> None:
        """All lengths, from the end of the text backwards: each round, the places where one token more is the same."""
        n, tokens, breaks = self._n, self._tokens, self._breaks
        places = np.arange(1, n)
        for length in range(1, min(self._longest, n) + 1):
            last = n - length
            if breaks[last]:
                break
            places = places[places >= length]
            before = places - length
            places = places[(tokens[before] == tokens[last]) & ~breaks[before]]
            if places.size == 0:
                break
            self._lengths[places] = length

    def copy(self) -> Self:
        """The same for another text that begins alike."""
        other = object.__new__(type(self))
        other._n, other._longest = self._n, self._longest
        other._tokens, other._breaks, other._lengths = self._tokens.copy(), self._breaks.copy(), self._lengths.copy()
        return other

    def append(self, token: int, *, breaks: bool) -> None:
        """The text goes on with `token`."""
        n = self._n
        if n == self._tokens.size:
            for name in ("_tokens", "_breaks", "_lengths"):
                old = getattr(self, name)
                setattr(self, name, np.concatenate((old, np.zeros_like(old))))
        if breaks:
            self._lengths[: n + 1] = 0
        else:
            same = (self._tokens[:n] == token) & ~self._breaks[:n]
            longer = np.minimum(self._lengths[:n] + 1, self._longest)
            self._lengths[1 : n + 1] = np.where(same, longer, 0)
            self._lengths[0] = 0
        self._tokens[n] = token
        self._breaks[n] = breaks
        self._n = n + 1

    def followers(self, least: int, last: int | None) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Tokens that came after a match of at least `least` tokens, each once, and the length of its longest match.

        `last`: only matches within that many last tokens count, None: all.
        """
        n = self._n
        start = 0 if last is None else max(0, n - last)
        # A match may begin no earlier than `start`.
        lengths = np.minimum(self._lengths[start:n], np.arange(n - start))
        places = np.flatnonzero(lengths >= least)
        tokens, lengths = self._tokens[start:n][places], lengths[places]
        unique, where = np.unique(tokens, return_inverse=True)
        longest = np.zeros(unique.size, dtype=np.int32)
        np.maximum.at(longest, where, lengths)
        return unique, longest


class BreakFinder:
    """Finds the tokens at which one of some texts ends, as a text grows by tokens."""

    def __init__(self, breakers: Sequence[str], piece: Callable[[int], bytes]) -> None:
        self._breakers = [breaker.encode("utf-8") for breaker in breakers]
        self._keep = max(map(len, self._breakers), default=1) - 1
        self._piece = piece
        self._tail = b""

    def read(self, tokens: Sequence[int]) -> NDArray[np.bool_]:
        """Whether each token of the text's beginning breaks."""
        pieces = [self._piece(token) for token in tokens]
        text = b"".join(pieces)
        ends = np.cumsum([len(piece) for piece in pieces], dtype=np.int64)
        breaks = np.zeros(len(tokens), dtype=np.bool_)
        for breaker in self._breakers:
            found = text.find(breaker)
            while found >= 0:
                breaks[ends.searchsorted(found + len(breaker), side="left")] = True
                found = text.find(breaker, found + 1)
        self._tail = self._end_of(text)
        return breaks

    def would_break(self, token: int) -> bool:
        """Whether `token` breaks, if it is the next one."""
        piece = self._piece(token)
        text = self._tail + piece
        n_tail = len(self._tail)
        return any(text.find(b, max(0, n_tail - len(b) + 1)) >= 0 for b in self._breakers)

    def append(self, token: int) -> None:
        """The text goes on with `token`."""
        self._tail = self._end_of(self._tail + self._piece(token))

    def copy(self) -> Self:
        """The same for another text that begins alike."""
        other = object.__new__(type(self))
        other._breakers, other._keep, other._piece, other._tail = self._breakers, self._keep, self._piece, self._tail
        return other

    def _end_of(self, text: bytes) -> bytes:
        return text[-self._keep :] if self._keep else b""
