"""What `logit_bias` does to the tokens of a vocabulary (docs/rules.md#logit-bias). Knows no logits."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from afterword.engine.request import GenerationRequest
from afterword.errors import InvalidRequest

_BAN, _FORCE = -100.0, 100.0


class EveryTokenBanned(InvalidRequest):
    """Bias and bans leave the candidate no token: the client's mistake, unlike broken logits."""

    def __init__(self, *fields: str) -> None:
        """`fields`: those that ban together, the first of them the one to change."""
        bans = f"{fields[0]} bans" if len(fields) == 1 else f"{', '.join(fields[:-1])} and {fields[-1]} together ban"
        super().__init__(f"{bans} every token.", param=fields[0])


@dataclass(frozen=True, slots=True)
class TokenBias:
    """A `logit_bias` by what it does."""

    forced: tuple[int, ...]
    """In order of their ids. If there are any, they keep their logits and no other token may be sampled."""
    added: Mapping[int, float]
    """What is added to the logit of each token named, minus infinity to a banned one; empty if any are forced."""


def token_bias(logit_bias: Sequence[tuple[int, float]]) -> TokenBias:
    """Sort a `logit_bias` into what it forces, bans and adds.

    Adding 100 to forced tokens would change nothing but the rounding, so all others are banned instead.
    """
    forced = sorted(token for token, bias in logit_bias if bias >= _FORCE)
    if forced:
        return TokenBias(tuple(forced), {})
    return TokenBias((), {token: -math.inf if bias <= _BAN else bias for token, bias in logit_bias})


class DenseBias:
    """A request's bias as what is added to each token's logit. Immutable; shared by all of its candidates."""

    def __init__(self, logit_bias: Sequence[tuple[int, float]], n_vocab: int) -> None:
        bias = token_bias(logit_bias)
        self._named = dict.fromkeys(bias.forced, 0.0) if bias.forced else bias.added
        self._elsewhere = -math.inf if bias.forced else 0.0
        self.added: NDArray[np.float32] | None = None
        """(n_vocab,) and not to be written to; None: nothing is added to any."""
        if self._named:
            self.added = np.full(n_vocab, self._elsewhere, dtype=np.float32)
            self.added[list(self._named)] = list(self._named.values())
            self.added.setflags(write=False)

    def of(self, token: int) -> float:
        """What is added to one, as exactly as it was given."""
        return self._named.get(token, self._elsewhere)


def check_tokens_are_left(request: GenerationRequest, n_vocab: int) -> None:
    """Raise `EveryTokenBanned` if a candidate could sample nothing of a vocabulary of `n_vocab` tokens.

    For engines that sample in another program, which may do anything with such a request.
    """
    if request.max_tokens == 0:
        return
    bias = token_bias(request.sampling.logit_bias)
    banned = {token for token, value in bias.added.items() if value == -math.inf}
    n_left = len(bias.forced) or n_vocab - len(banned)
    if n_left == 0:
        raise EveryTokenBanned("logit_bias")
    ends = request.end_ids.intersection(bias.forced) if bias.forced else request.end_ids - banned
    if request.min_tokens > 0 and n_left == len(ends):
        raise EveryTokenBanned("logit_bias", "min_tokens")
