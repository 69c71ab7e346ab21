"""The echo engine's artificial language model: which token is likely after which. Pure arithmetic, no requests.

The caller names the expected token, which gets the highest logit. All others get a fixed number that follows from the
token before and their own id.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

EXPECTED_LOGIT = 10.0
"""Of the expected token: about nine times as likely as all others together."""

_NOISE = 2.0
"""Other logits lie in [0, _NOISE)."""

_MARK_PENALTY = 8.0
"""Taken off the logits of control tokens, so that sampling seldom ends a text that repeats."""


class EchoModel:
    """Logits over a vocabulary whose ids from `first_control` on are control tokens. Immutable; any thread."""

    def __init__(self, n_vocab: int, first_control: int) -> None:
        pairs = np.arange(n_vocab * n_vocab, dtype=np.uint64).reshape(n_vocab, n_vocab)
        # 22 bits: every value is exact in float32 and keeps its order.
        noise = (_mixed(pairs) >> np.uint64(42)).astype(np.float32) * np.float32(_NOISE / 2**22)
        noise[:, first_control:] -= np.float32(_MARK_PENALTY)
        self._noise = noise

    def logits(self, previous: Sequence[int], expected: int) -> NDArray[np.float32]:
        """(len(previous), n_vocab) raw logits of what follows each token of `previous`; the rows are the caller's."""
        rows = self._noise[list(previous)]
        rows[:, expected] = EXPECTED_LOGIT
        return rows


def log_softmax(logits: NDArray[np.float32]) -> NDArray[np.float64]:
    """Natural log-probabilities, row by row, of (n, n_vocab) logits."""
    shifted = logits.astype(np.float64)
    shifted -= shifted.max(axis=1, keepdims=True)
    shifted -= np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    return shifted


def likeliest(logprobs: NDArray[np.float64], k: int) -> NDArray[np.int32]:
    """(n, k) ids of the largest of each row of (n, n_vocab) numbers, largest first, ties by id."""
    return np.argsort(-logprobs, axis=1, kind="stable")[:, :k].astype(np.int32)


def _mixed(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Each value's bits spread evenly over 64: multiply and fold the high half down, three times, modulo 2**64."""
    for factor in (0x9E3779B97F4A7C15, 0xD6E8FEB86659FD93, 0xA0761D6478BD642F):
        values = (values + np.uint64(1)) * np.uint64(factor)
        values = values ^ (values >> np.uint64(32))
    return values
