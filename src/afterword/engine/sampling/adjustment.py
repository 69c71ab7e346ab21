"""Bias and penalties: the changes to the logits before sampling (docs/rules.md#sampling-order).

Dense vectors, so that a step costs the same however long the prompt and the completion are. Draws no token.
"""

from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from afterword.engine.sampling.bias import DenseBias
from afterword.fields.sampling import Sampling

_EXTREME = 1e20
"""Repetition penalties above this or below its inverse count as these."""


class Adjustment:
    """Logit bias and penalties of one candidate. Engine thread only.

    Raw logits are scaled by the repetition penalty first; then bias, frequency and presence penalties are
    added, so that their sizes mean what the API says whatever the repetition penalty is.
    """

    def __init__(self, sampling: Sampling, n_vocab: int, prompt: Sequence[int], bias: DenseBias) -> None:
        """`bias`: the request's. Vectors of the candidate's own are made when it samples, not while it waits."""
        self._n_vocab = n_vocab
        self._frequency = sampling.frequency_penalty
        self._presence = sampling.presence_penalty
        self._repetition = finite_penalty(sampling.repetition_penalty)
        self._prompt = prompt
        self._counts: Counter[int] = Counter()
        self._bias = bias
        self._added: NDArray[np.float32] | None = bias.added
        self._factors: NDArray[np.float32] | None = None

    def accept(self, token: int) -> None:
        """Count `token` as sampled."""
        if self._repetition != 1.0:
            self._repetition_factors()[token] = self._repetition
        if self._frequency == 0.0 and self._presence == 0.0:
            return
        if self._added is None:
            self._added = np.zeros(self._n_vocab, dtype=np.float32)
        elif self._added is self._bias.added:
            self._added = self._added.copy()
        self._counts[token] += 1
        # Computed anew from the count: repeated subtraction would add up rounding errors.
        penalty = self._counts[token] * self._frequency + self._presence
        self._added[token] = self._bias.of(token) - penalty

    def apply(
        self, row: NDArray[np.float32], out: NDArray[np.float32], spare: NDArray[np.float32]
    ) -> NDArray[np.float32]:
        """The adjusted (n_vocab,) logits: `out`, or `row` itself when nothing changes it. `spare` is overwritten."""
        scores = row
        if self._repetition != 1.0:
            scores = self._penalise_repetition(row, out, spare)
        if self._added is not None:
            scores = np.add(scores, self._added, out=out)
        return scores

    def _penalise_repetition(
        self, row: NDArray[np.float32], out: NDArray[np.float32], spare: NDArray[np.float32]
    ) -> NDArray[np.float32]:
        """Positive logits divided, negative ones multiplied, by the token's factor.

        With a factor p above 1 that is the smaller of l / p and l * p for either sign of l, below 1 the larger;
        where p is 1 both are l.
        """
        factors = self._repetition_factors()
        choose = np.minimum if self._repetition > 1.0 else np.maximum
        # A factor may turn a large logit into infinity, which the choice below drops.
        with np.errstate(over="ignore"):
            np.divide(row, factors, out=out)
            np.multiply(row, factors, out=spare)
        return choose(out, spare, out=out)

    def _repetition_factors(self) -> NDArray[np.float32]:
        if self._factors is None:
            self._factors = np.ones(self._n_vocab, dtype=np.float32)
            self._factors[list(self._prompt)] = self._repetition
        return self._factors


def finite_penalty(repetition_penalty: float) -> float:
    """The penalty within bounds in which no logit becomes infinite; only its direction matters beyond them."""
    return min(max(repetition_penalty, 1 / _EXTREME), _EXTREME)
