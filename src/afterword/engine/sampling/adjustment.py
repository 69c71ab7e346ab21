"""Bias and penalties: the changes to the logits before sampling (docs/rules.md#sampling-order).

Dense vectors, so that a step costs the same however long the prompt and the completion are. Draws no token.
"""

import math
from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from afterword.engine.sampling.bias import token_bias
from afterword.fields.sampling import Sampling

_EXTREME = 1e20
"""Repetition penalties above this or below its inverse count as these."""


class Adjustment:
    """Logit bias and penalties of one candidate. Engine thread only.

    Raw logits are scaled by the repetition penalty first; then bias, frequency and presence penalties are
    added, so that their sizes mean what the API says whatever the repetition penalty is.
    """

    def __init__(self, sampling: Sampling, n_vocab: int, prompt: Sequence[int]) -> None:
        self._n_vocab = n_vocab
        self._frequency = sampling.frequency_penalty
        self._presence = sampling.presence_penalty
        self._repetition = finite_penalty(sampling.repetition_penalty)
        self._counts: Counter[int] = Counter()
        bias = token_bias(sampling.logit_bias)
        self._bias = dict.fromkeys(bias.forced, 0.0) if bias.forced else bias.added
        self._default = -math.inf if bias.forced else 0.0
        """Added to tokens that `_bias` does not name."""
        self._added: NDArray[np.float32] | None = None
        self._factors: NDArray[np.float32] | None = None
        # Both stay None where nothing changes, so that a plain request costs no pass over the vocabulary.
        if self._bias:
            self._added = np.full(n_vocab, self._default, dtype=np.float32)
            self._added[list(self._bias)] = list(self._bias.values())
        if self._repetition != 1.0:
            self._factors = np.ones(n_vocab, dtype=np.float32)
            self._factors[list(prompt)] = self._repetition

    def accept(self, token: int) -> None:
        """Count `token` as sampled."""
        if self._factors is not None:
            self._factors[token] = self._repetition
        if self._frequency == 0.0 and self._presence == 0.0:
            return
        if self._added is None:
            self._added = np.zeros(self._n_vocab, dtype=np.float32)
        self._counts[token] += 1
        # Computed anew from the count: repeated subtraction would add up rounding errors.
        penalty = self._counts[token] * self._frequency + self._presence
        self._added[token] = self._bias.get(token, self._default) - penalty

    def apply(
        self, row: NDArray[np.float32], out: NDArray[np.float32], spare: NDArray[np.float32]
    ) -> NDArray[np.float32]:
        """The adjusted (n_vocab,) logits: `out`, or `row` itself when nothing changes it. `spare` is overwritten."""
        scores = row
        if self._factors is not None:
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
        assert self._factors is not None
        choose = np.minimum if self._repetition > 1.0 else np.maximum
        # A factor may turn a large logit into infinity, which the choice below drops.
        with np.errstate(over="ignore"):
            np.divide(row, self._factors, out=out)
            np.multiply(row, self._factors, out=spare)
        return choose(out, spare, out=out)


def finite_penalty(repetition_penalty: float) -> float:
    """The penalty within bounds in which no logit becomes infinite; only its direction matters beyond them."""
    return min(max(repetition_penalty, 1 / _EXTREME), _EXTREME)
