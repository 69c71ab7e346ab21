"""Drawing the next token of a sequence, and what is told of it. Engine thread only; no model."""

import numpy as np
from numpy.typing import NDArray

from afterword.engine.drawn import NO_NUMBERS, take
from afterword.engine.events import Event
from afterword.engine.llama.sequence import Sequence
from afterword.engine.sampling.logprobs import LogSoftmax
from afterword.engine.sampling.retries import NothingLeft

DRAWS_A_STEP = 16
"""Tokens that a sequence draws at most from the same logits where what they complete is banned. Then others go on, and
it computes the logits again: a draw takes a part of a millisecond."""


def draw(
    sequence: Sequence, row: NDArray[np.float32], scores: NDArray[np.float32], log_softmax: LogSoftmax
) -> tuple[list[Event], int]:
    """Draw from `scores`, list the log-probabilities of `row`; both (n_vocab,). Raises what `Sampler.sample` does.

    The events, and how many tokens were sampled: 0 where it is an end, or the sequence has gone back.
    """
    candidate = sequence.candidate
    n_before, events = candidate.n_tokens, list[Event]()
    for _ in range(DRAWS_A_STEP):
        try:
            events = _draw_once(sequence, row, scores, log_softmax)
        except NothingLeft:
            return candidate.close("stop"), 0
        if candidate.finished or candidate.n_tokens != n_before:
            break
    return events, max(0, candidate.n_tokens - n_before)


def _draw_once(
    sequence: Sequence, row: NDArray[np.float32], scores: NDArray[np.float32], log_softmax: LogSoftmax
) -> list[Event]:
    candidate, k = sequence.candidate, sequence.group.request.logprobs
    token = sequence.sampler.sample(scores, candidate.n_tokens)
    numbers = NO_NUMBERS
    if k is not None:
        lse = log_softmax.lse(row)
        named = log_softmax.named(row, lse, sequence.group.request.named_ids)
        numbers = (log_softmax.logprob(row, lse, token), log_softmax.top(row, lse, k), named)
    return take(candidate, sequence.sampler, sequence.sampled, token, numbers)
