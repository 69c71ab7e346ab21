"""What a candidate has to remember so that its last tokens can be taken back. Knows no text and no logits."""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, Generic, TypeVar

T = TypeVar("T")

MOST_TAKEN_BACK: Final = 10_000
"""Tokens of a candidate. Then it ends, so that nobody computes for ever what is not allowed."""

FURTHER: Final = 2**40
"""More than any text has tokens. After every return the draws of a position have numbers of their own."""


class NothingLeft(Exception):
    """Every token that could come next has been taken back, or too many have been."""


class Retries(Generic[T]):
    """One candidate's. `T` is a state of its sampler."""

    def __init__(self) -> None:
        self._n_returns = 0
        self._n_tokens = 0
        """Tokens that were taken back."""
        self._banned: dict[int, list[int]] = {}
        """What led to something banned, by position, given the text before."""
        self._kept: deque[tuple[int, T]] = deque()
        """The last tokens that were accepted, each with the state before it."""

    def banned_at(self, position: int) -> Sequence[int]:
        """Tokens that may not be drawn there."""
        return self._banned.get(position, ())

    def draw_at(self, position: int) -> int:
        """The number of the draw at a position. Raises `NothingLeft` once too many tokens were taken back."""
        if self._n_tokens > MOST_TAKEN_BACK:
            raise NothingLeft
        return position + self._n_returns * FURTHER

    def accept(self, token: int, n_held: int, state: Callable[[], T]) -> None:
        """A token goes on with the text; `n_held`: the last tokens, it included, that may be taken back."""
        if n_held > 0:
            self._kept.append((token, state()))
        while len(self._kept) > n_held:
            self._kept.popleft()

    def take_back(self, position: int, token: int, n: int) -> T | None:
        """The last n tokens are taken back, the first of which is at `position`, the last is `token`, not accepted yet.

        Returns the state before them; None: the present one.
        """
        state: T | None = None
        for _ in range(n - 1):
            token, state = self._kept.pop()
        self._n_returns += 1
        self._n_tokens += n
        # Behind what is kept nobody returns to, and what is banned after the position was so given another text.
        first = position - len(self._kept)
        self._banned = {place: tokens for place, tokens in self._banned.items() if first <= place <= position}
        self._banned.setdefault(position, []).append(token)
        return state
