"""What a sequence looks for in the prefix cache: tokens, and scores of them."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

MOST_KEPT = 128
"""Likeliest tokens of a row that stay in memory, twelve bytes each."""

Kin = tuple[int, int]
"""A request and a context of it."""


@dataclass(frozen=True, slots=True)
class ScoreRow:
    """Log-probabilities at one prompt position: of the prompt's own next token, and of the likeliest ones."""

    follower: int
    logprob: float
    ids: NDArray[np.int32]
    """(k,) likeliest tokens."""
    logprobs: NDArray[np.float64]
    """(k,) their log-probabilities."""
    named_ids: tuple[int, ...] = ()
    named: tuple[float, ...] = ()
    """Log-probabilities of `named_ids`."""

    def kept(self) -> "ScoreRow":
        """As it is kept for other prompts: of many likeliest tokens the first."""
        if len(self.ids) <= MOST_KEPT:
            return self
        return replace(self, ids=self.ids[:MOST_KEPT].copy(), logprobs=self.logprobs[:MOST_KEPT].copy())


@dataclass(frozen=True, slots=True)
class Demand:
    """What a sequence looks for in the cache."""

    prompt: NDArray[np.int32]
    """(P,) ids of the tokens that are computed."""
    reproducible: bool
    score_top: int | None
    """k of the prompt's score rows; None if the prompt is not scored."""
    score_from: int = 0
    """The first row that is wanted."""
    named_ids: tuple[int, ...] = ()
    """Tokens whose log-probabilities each row has."""
    last: int | None = None
    """The token after the prompt, where it is scored and nothing comes after it: then it need not be computed."""

    @property
    def n_rows(self) -> int:
        """Score rows of the whole prompt: one for each token that another one follows."""
        return len(self.prompt) - (self.last is None)

    def follower(self, i: int) -> int:
        """The token that row i is about."""
        if i + 1 < len(self.prompt):
            return int(self.prompt[i + 1])
        assert self.last is not None
        return self.last

    def n_covered_by(self, other: "Demand", n: int, n_common: int) -> int:
        """Of the first n tokens, as many as lack no row, once `other` is scored, which has `n_common` of them too."""
        if self.score_top is None:
            return n
        covers = (
            other.score_top is not None
            and other.score_top >= self.score_top
            and other.score_from <= self.score_from
            and self.named_ids in ((), other.named_ids)
        )
        return min(n, max(self.score_from, n_common - 1) if covers else self.score_from)

    def is_met_by(self, row: ScoreRow | None, i: int) -> bool:
        """Whether a row can be reused as row i."""
        return (
            row is not None
            and self.score_top is not None
            and len(row.ids) >= self.score_top
            and row.follower == self.follower(i)
            and self.named_ids in ((), row.named_ids)
        )
