"""Bias and penalties: the changes to the logits before sampling (docs/rules.md#sampling-order).

Dense vectors, so that a step costs the same however long the prompt and the completion are. Draws no token.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from copy import copy
from typing import Self

import numpy as np
from numpy.typing import NDArray

from afterword.engine.sampling.bias import DenseBias
from afterword.engine.sampling.recurrence import Recurrence
from afterword.engine.sampling.repetition import RepetitionPenalty
from afterword.fields.sampling import Sampling


class Adjustment:
    """Logit bias and penalties of one candidate. Engine thread only.

    Raw logits are scaled by the repetition penalty first; then bias, frequency and presence penalties are
    added, so that their sizes mean what the API says whatever the repetition penalty is; then what repetitions cost is
    taken off.
    """

    def __init__(
        self,
        sampling: Sampling,
        n_vocab: int,
        prompt: Sequence[int],
        bias: DenseBias,
        recurrences: Callable[[], list[Recurrence]],
    ) -> None:
        """`bias`, `recurrences`: the request's. What is the candidate's own is made when it samples, not earlier."""
        self._n_vocab = n_vocab
        self._frequency = sampling.frequency_penalty
        self._presence = sampling.presence_penalty
        self._repetition = RepetitionPenalty(sampling, n_vocab, prompt)
        self._counts: Counter[int] = Counter()
        self._bias = bias
        self._added: NDArray[np.float32] | None = bias.added
        self._open_recurrences = recurrences
        self._recurrences: list[Recurrence] | None = None

    def fork(self) -> Self:
        """The same for another text that begins alike."""
        other = copy(self)
        other._repetition, other._counts = self._repetition.fork(), self._counts.copy()
        if self._added is not None and self._added is not self._bias.added:
            other._added = self._added.copy()
        if self._recurrences is not None:
            other._recurrences = [recurrence.copy() for recurrence in self._recurrences]
        return other

    def accept(self, token: int) -> None:
        """Count `token` as sampled."""
        self._repetition.accept(token)
        for recurrence in self._found():
            recurrence.accept(token)
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
        if self._repetition.is_on:
            scores = self._repetition.apply(row, out, spare)
        if self._added is not None:
            scores = np.add(scores, self._added, out=out)
        for recurrence in self._found():
            tokens, costs = recurrence.found()
            if tokens.size:
                if scores is row:
                    np.copyto(out, row)
                    scores = out
                scores[tokens] -= costs
        return scores

    def _found(self) -> list[Recurrence]:
        if self._recurrences is None:
            self._recurrences = self._open_recurrences()
        return self._recurrences
