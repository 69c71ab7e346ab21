"""What an upstream is asked for one prompt: which requests, for which candidates, with which fields.

Every field that another server has a default of its own for is written out, so that the defaults are ours. Knows no
connection. What an upstream cannot honour never comes here: `capabilities.py` has it refused before.
"""

from dataclasses import dataclass
from typing import Any

from afterword.config.vendor import VendorConfig
from afterword.engine.request import GenerationRequest
from afterword.engine.upstream.learned import text_of
from afterword.engine.upstream.seeds import derived_seed, seed_of_32_bits
from afterword.fields.sampling import SAMPLING_FIELDS


@dataclass(frozen=True, slots=True)
class Target:
    """A model at an upstream."""

    vendor: VendorConfig
    model: str
    """Its name there."""
    own_end_ids: frozenset[int]
    """Tokens at which the model ends by itself."""
    exact: bool
    """The model's own tokenizer is at hand: prompts go out, and answers are read, as tokens."""


@dataclass(frozen=True, slots=True)
class Ask:
    """One HTTP request."""

    candidates: tuple[int, ...]
    """Candidate number of each choice, by the choice's index."""
    body: dict[str, Any]
    n_echoed: int
    """Entries of each choice that are the prompt's."""


def plan(request: GenerationRequest, target: Target) -> list[Ask]:
    """The requests that make up the answer; the first one's usage counts the prompt."""
    supports = target.vendor.supports
    stops = _stops(request, target)
    several = request.n_candidates > 1 and supports.n
    if request.sampling.is_greedy and not supports.greedy_n:
        several = False
    if request.stops and not stops:
        # A candidate that is stopped here would go on there until the last of its company ends.
        several = False
    if request.max_tokens == 0:
        return [_ask(request, target, (0,), stops, scores=request.prompt_logprobs)]
    if several:
        everyone = tuple(range(request.n_candidates))
        return [_ask(request, target, everyone, stops, scores=request.prompt_logprobs)]
    return [
        _ask(request, target, (candidate,), stops, scores=request.prompt_logprobs if candidate == 0 else None)
        for candidate in range(request.n_candidates)
    ]


def _ask(
    request: GenerationRequest,
    target: Target,
    candidates: tuple[int, ...],
    stops: dict[str, Any],
    *,
    scores: int | None,
) -> Ask:
    supports = target.vendor.supports
    body: dict[str, Any] = {
        "model": target.model,
        "prompt": list(request.prompt) if target.exact else text_of(request.prompt),
        "max_tokens": request.max_tokens if supports.zero_tokens else max(request.max_tokens, 1),
        "stream": True,
        **_sampling(request, target),
        **_ends(request, target),
        **stops,
    }
    if supports.stream_usage:
        body["stream_options"] = {"include_usage": True}
    if supports.seed:
        seed = derived_seed(request.seed, request.prompt_index, candidates[0])
        body["seed"] = seed_of_32_bits(seed) if target.vendor.kind == "llama-server" else seed
    if len(candidates) > 1:
        body["n"] = len(candidates)
    k = _logprobs(request, target, scores)
    if k is not None:
        body["logprobs"] = k
        if supports.token_ids and target.exact:
            body["return_tokens_as_token_ids"] = True
    if scores is not None:
        body["echo"] = True
    return Ask(candidates, body, 0 if scores is None else len(request.prompt))


def _logprobs(request: GenerationRequest, target: Target, scores: int | None) -> int | None:
    """With a tokenizer always, because they are how the sampled tokens are known."""
    asked = [k for k in (request.logprobs, scores) if k is not None]
    if target.exact:
        asked.append(0)
    return max([*asked, target.vendor.supports.min_logprobs]) if asked else None


def _sampling(request: GenerationRequest, target: Target) -> dict[str, Any]:
    sampling, kind = request.sampling.plain(), target.vendor.kind
    body: dict[str, Any] = {
        field.called.get(kind, field.name): getattr(sampling, field.name)
        for field in SAMPLING_FIELDS
        if target.vendor.supports.honours(field)
    }
    biases = body.pop("logit_bias", ())
    if biases:
        body["logit_bias"] = {str(token): _number(bias) for token, bias in biases}
    if kind == "llama-server":
        # Its penalties look back at 64 tokens unless told how far, and it keeps room for as many as it is told.
        body["repeat_last_n"] = len(request.prompt) + request.max_tokens
    return body


def _number(bias: float) -> float | int:
    """The documented type is an integer."""
    return int(bias) if bias.is_integer() else bias


def _ends(request: GenerationRequest, target: Target) -> dict[str, Any]:
    """Fields about ends, where they say anything: a server that has not got them must not see them."""
    body: dict[str, Any] = {}
    if not target.own_end_ids <= request.end_ids:
        body["ignore_eos"] = True
    further = sorted(request.end_ids - target.own_end_ids)
    if further and "stop_token_ids" in target.vendor.supports.extensions:
        body["stop_token_ids"] = further
    if request.min_tokens > 0:
        body["min_tokens"] = request.min_tokens
    if not request.skip_special_tokens and "skip_special_tokens" in target.vendor.supports.extensions:
        body["skip_special_tokens"] = False
    return body


def _stops(request: GenerationRequest, target: Target) -> dict[str, Any]:
    """The stops as the upstream can be told of them, empty where they are found here alone.

    Tokens are listed up to the end of the text, so where tokens are read the stop must be a part of it.
    """
    supports = target.vendor.supports
    included = target.exact or request.include_stop
    if not request.stops or len(request.stops) > supports.max_stops or (included and not supports.include_stop):
        return {}
    stops: dict[str, Any] = {"stop": list(request.stops)}
    return stops | {"include_stop_str_in_output": True} if included else stops
