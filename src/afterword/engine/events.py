"""The events of one prompt, which are all that an engine reports.

Order for each prompt: `Started` first, again if another engine begins anew; `PromptDone` once; then, for each
candidate, `Chunk`s in order and `Finished` last. Candidates interleave. Joining all chunks of a candidate gives its
whole text and tokens. `Counted` may come once between `Started` and the last.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class SampledToken:
    """One sampled token with its log-probability under the raw distribution (docs/rules.md#raw-logits)."""

    id: int
    offset: int
    """Code points from the start of the prompt to the first character this token takes part in."""
    logprob: float
    top: tuple[tuple[int, float], ...]
    """(id, log-probability) of the likeliest tokens, likeliest first; ties by id. `logprob` is bit-identical
    to the entry of the same id here, if there is one."""
    named: tuple[float, ...] = ()
    """Log-probabilities of the request's `named_ids`."""


@dataclass(frozen=True, slots=True)
class PromptScores:
    """Log-probabilities of a prompt of P tokens; row i is about token i + 1, given tokens 0..i.

    The rows from `start` on are here, R = P - 1 - start of them. At most the request's `score_from`.
    """

    logprobs: NDArray[np.float64]
    """(R,) log-probability of each prompt token after the first."""
    top_ids: NDArray[np.int32]
    """(R, k) ids of the likeliest tokens at the same places, likeliest first; ties by id."""
    top_logprobs: NDArray[np.float64]
    """(R, k) their log-probabilities."""
    start: int = 0
    named_logprobs: NDArray[np.float64] | None = None
    """(R, m) log-probabilities of the request's `named_ids`; None if it has none."""


@dataclass(frozen=True, slots=True)
class Started:
    """The prompt waits no more: it has a slot, or the server that computes it was asked."""


@dataclass(frozen=True, slots=True)
class PromptDone:
    """The prompt has been processed."""

    n_cached: int
    """Prompt tokens that were not computed because their KV cells were already there."""
    scores: PromptScores | None
    """Set if and only if `GenerationRequest.prompt_logprobs` was not None."""
    waited: float | None = field(default=None, compare=False)
    """Seconds until it had a slot; None: the engine does not say. No part of what was computed."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """Some text of one candidate that is final, and the tokens it came from."""

    index: int
    """Candidate, 0-based."""
    text: str
    """Whole characters, no part of a stop. May be empty when only tokens are reported."""
    tokens: tuple[SampledToken, ...]
    """Tokens to list with it; empty unless `GenerationRequest.logprobs` was not None."""
    n_tokens: int
    """Completion tokens sampled for the candidate so far, this chunk included; the end token excluded."""


@dataclass(frozen=True, slots=True)
class Finished:
    """One candidate has ended."""

    index: int
    reason: str
    """`stop`, `length` or `content_filter` (docs/rules.md#finish-reason)."""
    n_tokens: int
    """Completion tokens sampled, the end-of-text token excluded."""
    sum_logprob: float
    """Sum of the raw log-probabilities of every sampled token, the end token included; 0.0 if logprobs is None."""
    n_scored: int
    """How many tokens `sum_logprob` adds up."""
    n_accepted: int = 0
    """Predicted tokens that were sampled."""
    n_rejected: int = 0
    """Predicted tokens that were not."""


@dataclass(frozen=True, slots=True)
class Counted:
    """What another server counted for the prompt, known at the end of its answer. None: the earlier events' count."""

    n_prompt: int | None
    """Prompt tokens."""
    n_cached: int | None
    """Those of them that were not computed, in addition to those of `PromptDone`."""
    n_completion: int | None
    """Tokens sampled for all candidates together, end-of-text tokens excluded."""


Event = Started | PromptDone | Chunk | Finished | Counted
