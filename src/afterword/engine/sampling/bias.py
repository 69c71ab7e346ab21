"""What `logit_bias` and `allowed_token_ids` do to tokens (docs/rules.md#logit-bias). Knows no logits."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from afterword.engine.request import GenerationRequest
from afterword.errors import InvalidRequest
from afterword.fields.sampling import Sampling

_BAN, _FORCE = -100.0, 100.0


class EveryTokenBanned(InvalidRequest):
    """Bias and bans leave the candidate no token: the client's mistake, unlike broken logits."""

    def __init__(self, *fields: str) -> None:
        """`fields`: those that ban together, the first of them the one to change."""
        bans = f"{fields[0]} bans" if len(fields) == 1 else f"{', '.join(fields[:-1])} and {fields[-1]} together ban"
        super().__init__(f"{bans} every token.", param=fields[0])


@dataclass(frozen=True, slots=True)
class TokenBias:
    """What is done to tokens by their ids."""

    allowed: tuple[int, ...] | None
    """In order. No other token may be sampled; None: any may."""
    added: Mapping[int, float]
    """What is added to the logit of each token named, minus infinity to a banned one."""


def token_bias(sampling: Sampling) -> TokenBias:
    """Sort `logit_bias` into what it forces, bans and adds, within the tokens that are allowed.

    Adding 100 to forced tokens would change nothing but the rounding, so all others are banned instead.
    """
    forced = {token for token, bias in sampling.logit_bias if bias >= _FORCE}
    if not forced and not sampling.allowed_token_ids:
        return TokenBias(None, {token: -math.inf if bias <= _BAN else bias for token, bias in sampling.logit_bias})
    banned = {token for token, bias in sampling.logit_bias if bias <= _BAN}
    allowed = set(sampling.allowed_token_ids or forced).intersection(forced or sampling.allowed_token_ids) - banned
    added = {} if forced else {token: bias for token, bias in sampling.logit_bias if token in allowed}
    return TokenBias(tuple(sorted(allowed)), added)


class DenseBias:
    """A request's bias as what is added to each token's logit. Immutable; shared by all of its candidates."""

    def __init__(self, sampling: Sampling, n_vocab: int) -> None:
        bias = token_bias(sampling)
        self._named = dict(bias.added) if bias.allowed is None else {**dict.fromkeys(bias.allowed, 0.0), **bias.added}
        self._elsewhere = 0.0 if bias.allowed is None else -math.inf
        self.added: NDArray[np.float32] | None = None
        """(n_vocab,) and not to be written to; None: nothing is added to any."""
        if self._named or bias.allowed is not None:
            self.added = np.full(n_vocab, self._elsewhere, dtype=np.float32)
            self.added[list(self._named)] = list(self._named.values())
            self.added.setflags(write=False)

    def of(self, token: int) -> float:
        """What is added to one, as exactly as it was given."""
        return self._named.get(token, self._elsewhere)


def restricting(sampling: Sampling) -> str:
    """The field that leaves no token, if one of those of `token_bias` does."""
    return "allowed_token_ids" if sampling.allowed_token_ids else "logit_bias"


def check_tokens_are_left(request: GenerationRequest, n_vocab: int) -> None:
    """Raise `EveryTokenBanned` if a candidate could sample nothing of a vocabulary of `n_vocab` tokens.

    For engines that sample in another program, which may do anything with such a request.
    """
    if request.max_tokens == 0:
        return
    bias = token_bias(request.sampling)
    banned = {token for token, value in bias.added.items() if value == -math.inf}
    n_left = n_vocab - len(banned) if bias.allowed is None else len(bias.allowed)
    if n_left == 0:
        raise EveryTokenBanned(restricting(request.sampling))
    ends = request.end_ids - banned if bias.allowed is None else request.end_ids.intersection(bias.allowed)
    if request.min_tokens > 0 and n_left == len(ends):
        raise EveryTokenBanned(restricting(request.sampling), "min_tokens")
