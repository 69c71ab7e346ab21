"""Log-probabilities as vLLM lists them, put into this package's order: likeliest first, ties by id.

For each position vLLM lists the token that is there, then the k likeliest, which may include it again. Equal values
come in any order, and of several equal ones any may be the last listed.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from afterword.engine.events import PromptScores
from afterword.engine.sampling.logprobs import FLOOR


def sampled(ids: Sequence[int], logprobs: Sequence[float], k: int) -> tuple[float, tuple[tuple[int, float], ...]]:
    """The sampled token's log-probability and the k likeliest, from the entries of one place."""
    entries = {token: max(logprob, FLOOR) for token, logprob in zip(ids, logprobs, strict=True)}
    top = sorted(entries.items(), key=lambda entry: (-entry[1], entry[0]))
    return entries[ids[0]], tuple(top[:k])


def prompt_scores(ids: Sequence[int], logprobs: Sequence[float], n_places: int, k: int) -> PromptScores:
    """Scores of `n_places` prompt tokens, from k + 1 entries for each, one place after the other."""
    table = np.asarray(ids, dtype=np.int32).reshape(n_places, k + 1)
    values = np.maximum(np.asarray(logprobs, dtype=np.float64).reshape(n_places, k + 1), FLOOR)
    own = values[:, 0].copy()
    if k == 0:
        return PromptScores(own, table[:, :0], values[:, :0])
    order = _order(table, values)
    return PromptScores(own, np.take_along_axis(table, order, axis=1), np.take_along_axis(values, order, axis=1))


def _order(table: NDArray[np.int32], values: NDArray[np.float64]) -> NDArray[np.intp]:
    """Columns of the k likeliest different tokens of each row, likeliest first."""
    ranked = values.copy()
    # The token at the position counts once: if the likeliest include it, its own column is sorted to the end.
    ranked[(table[:, 1:] == table[:, :1]).any(axis=1), 0] = -np.inf
    return np.lexsort((table, -ranked), axis=1)[:, : table.shape[1] - 1]
