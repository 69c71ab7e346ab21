"""Log-probabilities of tokens under the model's raw logits (docs/rules.md#raw-logits). Knows no sampling and no model.

Every number follows from one row of logits alone, to the bit: rows are computed one at a time, in buffers of this
module's own, by numpy operations whose results depend neither on threads nor on alignment.
"""

import math

import numpy as np
from numpy.typing import NDArray

from afterword.engine.sampling.largest import largest

FLOOR = -9999.0
"""The lowest log-probability shown; minus infinity becomes this too, because JSON has no infinity."""

_FOLD = 8
"""Terms that are added in float32 before the long sum in float64."""


class NoDistribution(ValueError):
    """A row of logits with NaN or plus infinity, or with minus infinity alone: weights or a build that are broken."""

    def __init__(self, peak: float) -> None:
        super().__init__(f"the model's logits have {peak} as their largest value")


class LogSoftmax:
    """Log-probabilities for a vocabulary of `n_vocab` tokens. Owns work buffers: engine thread only.

    A row is an (n_vocab,) float32 array of raw logits and is never modified.
    """

    def __init__(self, n_vocab: int) -> None:
        assert n_vocab >= 1
        self._n_vocab = n_vocab
        padded = -(-n_vocab // _FOLD) * _FOLD
        self._weights = np.zeros(padded, dtype=np.float32)
        self._folded = np.empty(padded // _FOLD, dtype=np.float32)

    def lse(self, row: NDArray[np.float32]) -> float:
        """Natural logarithm of the sum of exp(row), within about 1e-6.

        Raises `NoDistribution` for a row that is none: with NaN or plus infinity, or all minus infinity.
        """
        assert row.shape == (self._n_vocab,)
        peak = row.max()
        if not np.isfinite(peak):
            raise NoDistribution(peak)
        weights = self._weights[: self._n_vocab]
        with np.errstate(over="ignore"):
            np.subtract(row, peak, out=weights)
        np.exp(weights, out=weights)
        # The padding stays 0. Eight float32 terms lose less than exp itself did; the long sum is in float64.
        np.add.reduce(self._weights.reshape(_FOLD, -1), axis=0, out=self._folded)
        return float(peak) + math.log(self._folded.sum(dtype=np.float64))

    def logprob(self, row: NDArray[np.float32], lse: float, token: int) -> float:
        """Log-probability of `token`, given the row's `lse`; at least `FLOOR`."""
        return max(float(row[token]) - lse, FLOOR)

    def named(self, row: NDArray[np.float32], lse: float, tokens: tuple[int, ...]) -> tuple[float, ...]:
        """Log-probabilities of several tokens: each what `logprob` gives for it."""
        if not tokens:
            return ()
        values: list[float] = np.maximum(row[list(tokens)].astype(np.float64) - lse, FLOOR).tolist()
        return tuple(values)

    def top(self, row: NDArray[np.float32], lse: float, k: int) -> tuple[tuple[int, float], ...]:
        """(id, log-probability) of the k likeliest tokens, likeliest first, equal logits by id.

        k may be 0 (none) or more than there are tokens (all). Each value is what `logprob` gives for that id.
        """
        ids, values = self.likeliest(row, lse, k)
        return tuple(zip(ids.tolist(), values.tolist(), strict=True))

    def likeliest(self, row: NDArray[np.float32], lse: float, k: int) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
        """The same as two arrays."""
        ids = largest(row, k)
        return ids.astype(np.int32), np.maximum(row[ids].astype(np.float64) - lse, FLOOR)
