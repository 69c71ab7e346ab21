"""Drawing the next token of a sequence, and what is told of it. Engine thread only; no model."""

import numpy as np
from numpy.typing import NDArray

from afterword.engine.events import Event
from afterword.engine.llama.sequence import Sequence
from afterword.engine.sampling.logprobs import LogSoftmax


def draw(
    sequence: Sequence, row: NDArray[np.float32], scores: NDArray[np.float32], log_softmax: LogSoftmax
) -> tuple[list[Event], int]:
    """Draw from `scores`, list the log-probabilities of `row`; both (n_vocab,). Raises what `Sampler.sample` does.

    The events, and how many tokens were sampled: 0 where it is an end.
    """
    candidate, k = sequence.candidate, sequence.group.request.logprobs
    token = sequence.sampler.sample(scores, candidate.n_tokens)
    logprob: float | None = None
    top: tuple[tuple[int, float], ...] = ()
    named: tuple[float, ...] = ()
    if k is not None:
        lse = log_softmax.lse(row)
        logprob = log_softmax.logprob(row, lse, token)
        top = log_softmax.top(row, lse, k)
        named = log_softmax.named(row, lse, sequence.group.request.named_ids)
    n_before = candidate.n_tokens
    events = candidate.accept(token, logprob, top, named)
    if not candidate.finished:
        sequence.sampler.accept(token)
        sequence.last_token = token
    return events, candidate.n_tokens - n_before
