"""Samplers that remember how likely the drawn tokens were: Mirostat, and adaptive p."""

import math
from typing import Final

import numpy as np

from afterword.engine.sampling.candidates import Candidates

_MOST_LIKELY: Final = 100
"""Tokens from which Mirostat 1 estimates how fast probabilities fall: m of its paper."""


class Mirostat1:
    """Basu and others, 2021: Mirostat, a neural text decoding algorithm that directly controls perplexity."""

    def __init__(self, tau: float, eta: float) -> None:
        """`tau`: the surprise to hold, in bits a token. `eta`: the part of an error that is corrected at once."""
        self._tau, self._eta = tau, eta
        self._mu = 2 * tau
        self._left: Candidates | None = None

    def apply(self, candidates: Candidates) -> None:
        """Keep the k likeliest tokens, where k follows from an estimate of Zipf's exponent."""
        n = candidates.ids.size
        candidates.put_in_order()
        candidates.keep_likeliest(self._n_kept(candidates, n))
        self._left = candidates.copy()

    def _n_kept(self, candidates: Candidates, n: int) -> int:
        head = candidates.scores[:_MOST_LIKELY].astype(np.float64)
        if head.size < 2:
            return 1
        ranks = np.arange(1, head.size, dtype=np.float64)
        steps = np.log((ranks + 1) / ranks)
        s = float((steps * (head[:-1] - head[1:])).sum() / (steps * steps).sum())
        epsilon = s - 1
        if s <= 0:
            return n
        with np.errstate(all="ignore"):
            if abs(epsilon) < 1e-6:
                base = 2.0**self._mu / math.log(n)
            else:
                base = epsilon * 2.0**self._mu / (1 - float(n) ** -epsilon)
        return max(1, min(n, round(base ** (1 / s)))) if base < 1e300 else n

    def accept(self, token: int) -> None:
        """Correct the bound by how surprising `token` was."""
        assert self._left is not None
        self._mu -= self._eta * (-math.log2(self._left.probability(token)) - self._tau)


class Mirostat2:
    """The same paper's second algorithm: tokens that are more surprising than the bound are dropped."""

    def __init__(self, tau: float, eta: float) -> None:
        """As for the first."""
        self._tau, self._eta = tau, eta
        self._mu = 2 * tau
        self._left: Candidates | None = None

    def apply(self, candidates: Candidates) -> None:
        """Keep the likeliest token, and all within the bound."""
        least = candidates.total * 2.0**-self._mu
        if least > 1:
            candidates.keep_likeliest(1)
        else:
            candidates.keep(candidates.weights >= np.float32(least))
        self._left = candidates.copy()

    def accept(self, token: int) -> None:
        """Correct the bound by how surprising `token` was."""
        assert self._left is not None
        self._mu -= self._eta * (-math.log2(self._left.probability(token)) - self._tau)


_PEAK: Final = 5.0
_SHARPNESS: Final = 10.0
_WIDTH: Final = 0.3
"""Constants of adaptive p: the score at the target, and how fast it falls with the distance."""


class AdaptiveP:
    """Prefers tokens of about one probability, such that the drawn ones have it on average (llama.cpp#17927)."""

    def __init__(self, target: float, decay: float) -> None:
        """`target`: from 0 to 1. `decay`: what an earlier token counts less with each that comes after it."""
        self._target, self._decay = target, decay
        # As if all tokens before had been drawn with the probability that is wanted.
        self._sum, self._count = target / (1 - decay), 1 / (1 - decay)
        self._before: Candidates | None = None

    def apply(self, candidates: Candidates) -> None:
        """Give the highest score to the probability that brings the average back to the target."""
        self._before = candidates.copy()
        wanted = min(max(2 * self._target - self._sum / self._count, 0.0), 1.0)
        probabilities = candidates.weights.astype(np.float64) / candidates.total
        distance = np.abs(probabilities - wanted) / _WIDTH
        scores = _PEAK - _SHARPNESS * distance * distance / (1 + distance)
        candidates.reweigh(scores.astype(np.float32))

    def accept(self, token: int) -> None:
        """Count the probability that `token` had before."""
        assert self._before is not None
        self._sum = self._decay * self._sum + self._before.probability(token)
        self._count = self._decay * self._count + 1
