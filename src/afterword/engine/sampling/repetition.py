"""The repetition penalty as a factor for each token, over all tokens so far or over the last ones."""

from collections.abc import Sequence
from copy import copy
from typing import Final, Self

import numpy as np
from numpy.typing import NDArray

from afterword.fields.sampling import Sampling

_EXTREME: Final = 1e20
"""Repetition penalties above this or below its inverse count as these."""


class RepetitionPenalty:
    """One candidate's. Engine thread only.

    In the older half of a range the penalty is weaker by `rep_pen_slope` (KoboldCpp).
    """

    def __init__(self, sampling: Sampling, n_vocab: int, prompt: Sequence[int]) -> None:
        """The vector is made when it is first needed, not while the candidate waits."""
        self._n_vocab = n_vocab
        self._penalty = finite_penalty(sampling.repetition_penalty)
        slope = sampling.repeats.rep_pen_slope or 1.0
        self._older = 1 + (self._penalty - 1) * slope if self._penalty > 1 else self._penalty
        self._range = sampling.repeats.penalty_range
        self._sees_all = self._range is None and self._older == self._penalty
        self._prompt = prompt
        self._sampled: list[int] = []
        self._factors: NDArray[np.float32] | None = None

    @property
    def is_on(self) -> bool:
        """Whether it changes anything."""
        return self._penalty != 1.0 and self._range != 0

    def fork(self) -> Self:
        """The same for another text that begins alike."""
        other = copy(self)
        other._sampled = self._sampled.copy()
        other._factors = None if self._factors is None else self._factors.copy()
        return other

    def accept(self, token: int) -> None:
        """Count `token` as sampled."""
        if not self.is_on:
            return
        if self._sees_all:
            self._all()[token] = self._penalty
        else:
            self._sampled.append(token)

    def apply(
        self, row: NDArray[np.float32], out: NDArray[np.float32], spare: NDArray[np.float32]
    ) -> NDArray[np.float32]:
        """Positive logits divided, negative ones multiplied, by the token's factor, in `out`; `spare` is overwritten.

        With a factor p above 1 that is the smaller of l / p and l * p for either sign of l, below 1 the larger;
        where p is 1 both are l.
        """
        factors = self._all() if self._sees_all else self._last()
        choose = np.minimum if self._penalty > 1.0 else np.maximum
        # A factor may turn a large logit into infinity, which the choice below drops.
        with np.errstate(over="ignore"):
            np.divide(row, factors, out=out)
            np.multiply(row, factors, out=spare)
        return choose(out, spare, out=out)

    def _all(self) -> NDArray[np.float32]:
        if self._factors is None:
            self._factors = np.ones(self._n_vocab, dtype=np.float32)
            self._factors[list(self._prompt)] = self._penalty
        return self._factors

    def _last(self) -> NDArray[np.float32]:
        """Of the last tokens; of a token that is there twice the later place counts."""
        n = len(self._prompt) + len(self._sampled)
        n = n if self._range is None else min(n, self._range)
        n_prompt = n - len(self._sampled)
        last = [*self._prompt[len(self._prompt) - n_prompt :], *self._sampled] if n_prompt > 0 else self._sampled[-n:]
        if self._factors is None:
            self._factors = np.ones(self._n_vocab, dtype=np.float32)
        else:
            self._factors.fill(1)
        self._factors[last[: n // 2]] = self._older
        self._factors[last[n // 2 :]] = self._penalty
        return self._factors


def finite_penalty(repetition_penalty: float) -> float:
    """The penalty within bounds in which no logit becomes infinite; only its direction matters beyond them."""
    return min(max(repetition_penalty, 1 / _EXTREME), _EXTREME)
