"""From a `GenerationRequest` to vLLM's parameters for each candidate, within vLLM's ranges.

Owns the translation of every field. Does not know vLLM's classes: only `vllm_binding.py` does.
"""

import hashlib
import struct
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace

from afterword.engine.request import GenerationRequest
from afterword.engine.sampling.bias import TokenBias, check_tokens_are_left, restricting, token_bias
from afterword.engine.sampling.repetition import finite_penalty
from afterword.errors import InvalidRequest
from afterword.fields.bans import BAN_FIELDS
from afterword.fields.decoding import DECODING_FIELDS
from afterword.fields.field import RequestField
from afterword.fields.grammars import CONSTRAINT_FIELDS, Grammar, kinds_lacking
from afterword.fields.sampling import SAMPLING_FIELDS, Sampling, values_of_sampling
from afterword.fields.table import ONLY_HERE

VLLM = "vllm"
"""Its name in the table of fields."""

_PURPOSE = b"vllm seed"
"""Separates these seeds from other uses of the same key. Changing it would change the meaning of every seed."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What this build of vLLM and this model accept."""

    n_vocab: int
    max_listed: int | None
    """Most tokens in `logit_bias`; None: any number."""
    max_end_ids: int | None
    """Most tokens that may end a candidate; None: any number."""


@dataclass(frozen=True, slots=True)
class Plan:
    """One candidate as vLLM computes it."""

    prompt: tuple[int, ...]
    max_tokens: int
    """At least 1: vLLM cannot sample nothing."""
    min_tokens: int
    end_ids: frozenset[int]
    sampling: Sampling
    """Within vLLM's ranges; its `logit_bias` and `allowed_token_ids` are in the next field."""
    bias: TokenBias
    bad_words: tuple[str, ...]
    seed: int
    """Not negative: vLLM takes -1 for no seed."""
    logprobs: int | None
    prompt_logprobs: int | None
    form: Grammar | None = None
    """What the text must be, for vLLM to hold it to."""


def plan_of(request: GenerationRequest, index: int, limits: Limits) -> Plan:
    """The plan of candidate number `index` of a request; only the first scores the prompt.

    Raises `InvalidRequest` if the request leaves its candidates no token, or names more tokens than vLLM takes.
    """
    bias = token_bias(request.sampling)
    check_tokens_are_left(request, limits.n_vocab)
    _check_length("logit_bias", bias.added, limits.max_listed)
    _check_length(restricting(request.sampling), bias.allowed or (), limits.max_listed)
    _check_length("stop_token_ids", request.end_ids, limits.max_end_ids)
    return Plan(
        prompt=request.prompt,
        max_tokens=max(request.max_tokens, 1),
        min_tokens=min(request.min_tokens, max(request.max_tokens, 1)),
        end_ids=request.end_ids,
        sampling=_within_ranges(request.sampling.plain(), limits),
        bias=bias,
        bad_words=request.bans.exact,
        seed=seed_of(request.seed, request.prompt_index, index),
        logprobs=request.logprobs,
        prompt_logprobs=request.prompt_logprobs if index == 0 else None,
        form=None if request.grammar is None else request.grammar.written,
    )


def seed_of(seed: int, prompt_index: int, candidate: int) -> int:
    """A candidate's own seed, from 0 to 2**63 - 1. Any signed 64-bit `seed`."""
    key = struct.pack("<qqq", seed, prompt_index, candidate)
    digest = hashlib.blake2b(digest_size=8, key=key, person=_PURPOSE).digest()
    return int.from_bytes(digest, "little") >> 1


def sampling_arguments(sampling: Sampling) -> dict[str, float]:
    """A plan's sampling under vLLM's own names."""
    values = values_of_sampling(sampling)
    return {
        field.called.get(VLLM, field.name): values[field.name]
        for field in SAMPLING_FIELDS
        if field.name not in ("logit_bias", "allowed_token_ids") and _knows(field)
    }


_ASKED_FOR = (*SAMPLING_FIELDS, *CONSTRAINT_FIELDS, *DECODING_FIELDS, *BAN_FIELDS)


def missing_features(fields: Iterable[RequestField] = _ASKED_FOR) -> dict[str, str]:
    """Features of sampling, and of no engine but ours, that vLLM does not have, as in `Capabilities.lacks`."""
    missing = [*(field.feature for field in fields if field.feature and not _knows(field)), *ONLY_HERE]
    lacking = {feature: f"vLLM takes no {what}." for feature, what in kinds_lacking(VLLM).items()}
    return dict.fromkeys(missing, "vLLM has nothing like it.") | lacking


def _knows(field: RequestField) -> bool:
    return field.documented or VLLM in field.vendors or field.feature == "logit_bias"


def _within_ranges(sampling: Sampling, limits: Limits) -> Sampling:
    return replace(
        sampling,
        top_k=0 if sampling.top_k >= limits.n_vocab else sampling.top_k,
        repetition_penalty=finite_penalty(sampling.repetition_penalty),
        logit_bias=(),
        allowed_token_ids=(),
    )


def _check_length(param: str, tokens: Collection[int], limit: int | None) -> None:
    if limit is not None and len(tokens) > limit:
        raise InvalidRequest(
            f"{param} names {len(tokens)} tokens; this model's engine takes at most {limit}.", param=param
        )
