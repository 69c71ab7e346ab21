"""Classifier-free guidance: logits moved away from those after another prompt (docs/rules.md#guidance).

As `UnbatchedClassifierFreeGuidanceLogitsProcessor` of Hugging Face transformers computes it (Sanchez and others, 2023).
"""

import numpy as np
from numpy.typing import NDArray

from afterword.engine.sampling.logprobs import FLOOR, LogSoftmax


def guided(
    row: NDArray[np.float32], negative: NDArray[np.float32], scale: float, log_softmax: LogSoftmax
) -> NDArray[np.float32]:
    """negative + scale * (row - negative), of the log-probabilities of two (n_vocab,) rows of logits.

    What `row` rules out stays ruled out. Raises `NoDistribution`.
    """
    wanted = np.maximum(row - np.float32(log_softmax.lse(row)), np.float32(FLOOR))
    unwanted = np.maximum(negative - np.float32(log_softmax.lse(negative)), np.float32(FLOOR))
    moved: NDArray[np.float32] = unwanted + np.float32(scale) * (wanted - unwanted)
    moved[np.isneginf(row)] = -np.inf
    return moved
