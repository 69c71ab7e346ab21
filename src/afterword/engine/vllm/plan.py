"""From what an engine is asked to do to what vLLM is told: one candidate's request, in vLLM's ranges.

Owns every difference between the two vocabularies that can be bridged. Must not know vLLM's classes: only
`binding.py` does.
"""

import hashlib
import math
import struct
from collections.abc import Iterable
from dataclasses import dataclass

from afterword.engine.request import GenerationRequest, Sampling
from afterword.engine.sampling.sampler import EveryTokenBanned
from afterword.errors import InvalidRequest

_PURPOSE = b"vllm seed"
"""Keeps these seeds apart from any other use of the same key; a part of what seeds mean, so never change it."""

_GREEDY_BELOW = 1e-5
"""Temperatures under this are greedy (docs/rules.md#temperature)."""

_BAN, _FORCE = -100.0, 100.0

_EXTREME = 1e20
"""Repetition penalties above this or below its inverse count as these: with them a logit would become infinite."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What this build of vLLM and this model can take."""

    n_vocab: int
    max_listed: int | None
    """Most tokens that `logit_bias` may name; None: any number."""
    max_end_ids: int | None
    """Most tokens that may end a candidate; None: any number."""


@dataclass(frozen=True, slots=True)
class Plan:
    """One candidate as vLLM computes it. Fields that `Sampling` has mean the same here."""

    prompt: tuple[int, ...]
    max_tokens: int
    """At least 1: vLLM cannot sample nothing."""
    min_tokens: int
    end_ids: frozenset[int]
    temperature: float
    top_p: float
    """Above 0."""
    top_k: int
    min_p: float
    frequency_penalty: float
    presence_penalty: float
    repetition_penalty: float
    bias: tuple[tuple[int, float], ...]
    """Added to logits; minus infinity bans."""
    allowed: tuple[int, ...] | None
    """The only tokens that may be sampled; None: all."""
    seed: int
    """Not negative: vLLM takes -1 for no seed."""
    logprobs: int | None
    prompt_logprobs: int | None


def plan_of(request: GenerationRequest, index: int, limits: Limits) -> Plan:
    """What candidate number `index` of a request asks of vLLM; only the first scores the prompt.

    Raises `InvalidRequest` if the request leaves its candidates no token, or names more tokens than vLLM takes.
    """
    sampling = request.sampling
    allowed, bias = _allowed_and_bias(sampling)
    if request.max_tokens > 0:
        _check_something_is_left(request, allowed, bias, limits)
    _check_length("logit_bias", allowed or [token for token, _ in bias], limits.max_listed)
    _check_length("stop_token_ids", request.end_ids, limits.max_end_ids)
    greedy = sampling.temperature < _GREEDY_BELOW or sampling.top_p <= 0.0 or sampling.top_k == 1
    return Plan(
        prompt=request.prompt,
        max_tokens=max(request.max_tokens, 1),
        min_tokens=min(request.min_tokens, max(request.max_tokens, 1)),
        end_ids=request.end_ids,
        temperature=0.0 if greedy else sampling.temperature,
        top_p=1.0 if greedy else sampling.top_p,
        top_k=0 if greedy or sampling.top_k >= limits.n_vocab else sampling.top_k,
        min_p=0.0 if greedy else sampling.min_p,
        frequency_penalty=sampling.frequency_penalty,
        presence_penalty=sampling.presence_penalty,
        repetition_penalty=min(max(sampling.repetition_penalty, 1 / _EXTREME), _EXTREME),
        bias=bias,
        allowed=allowed,
        seed=seed_of(request.seed, request.prompt_index, index),
        logprobs=request.logprobs,
        prompt_logprobs=request.prompt_logprobs if index == 0 else None,
    )


def seed_of(seed: int, prompt_index: int, candidate: int) -> int:
    """A candidate's own seed, from 0 to 2**63 - 1. Any signed 64-bit `seed`."""
    key = struct.pack("<qqq", seed, prompt_index, candidate)
    digest = hashlib.blake2b(digest_size=8, key=key, person=_PURPOSE).digest()
    return int.from_bytes(digest, "little") >> 1


def _allowed_and_bias(sampling: Sampling) -> tuple[tuple[int, ...] | None, tuple[tuple[int, float], ...]]:
    """Forced tokens keep their logits and exclude all others; without any, banned ones get none.

    docs/rules.md#logit-bias
    """
    forced = tuple(sorted(token for token, bias in sampling.logit_bias if bias >= _FORCE))
    if forced:
        return forced, ()
    return None, tuple((token, -math.inf if bias <= _BAN else bias) for token, bias in sampling.logit_bias)


def _check_something_is_left(
    request: GenerationRequest,
    allowed: tuple[int, ...] | None,
    bias: tuple[tuple[int, float], ...],
    limits: Limits,
) -> None:
    """vLLM would sample from no distribution at all, and might take that for anything."""
    banned = {token for token, value in bias if value == -math.inf}
    n_left = limits.n_vocab - len(banned) if allowed is None else len(allowed)
    if n_left == 0:
        raise EveryTokenBanned("logit_bias bans every token.")
    if request.min_tokens == 0:
        return
    ends = request.end_ids - banned if allowed is None else request.end_ids & set(allowed)
    if n_left == len(ends):
        raise EveryTokenBanned("logit_bias and min_tokens together ban every token.")


def _check_length(param: str, tokens: Iterable[int], limit: int | None) -> None:
    n_tokens = len(list(tokens))
    if limit is not None and n_tokens > limit:
        raise InvalidRequest(
            f"{param} names {n_tokens} tokens; this model's engine takes at most {limit}.", param=param
        )
