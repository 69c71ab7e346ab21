"""The HTTP requests that an upstream is sent for one prompt: how many, for which candidates, with which fields.

A field that another server has a default of its own for is always sent, so that our defaults hold. Knows no connection.
What an upstream does not support was refused before (`capabilities.py`).
"""

import json
from dataclasses import asdict, dataclass
from typing import Any

from afterword.config.vendor import UpstreamKind, VendorConfig
from afterword.engine.grammars.grammar_compiler import Compiled
from afterword.engine.request import GenerationRequest
from afterword.engine.upstream.learned_tokenizer import text_of
from afterword.engine.upstream.seeds import derived_seed, seed_of_32_bits
from afterword.fields.field import RequestField
from afterword.fields.grammars import structured_outputs
from afterword.fields.order import STEPS
from afterword.fields.repeats import REPEAT_FIELDS
from afterword.fields.sampling import SAMPLING_FIELDS, modifies_something, values_of_sampling
from afterword.fields.shaping import ORDER_FIELDS, SHAPING_FIELDS


@dataclass(frozen=True, slots=True)
class Target:
    """A model at an upstream."""

    vendor: VendorConfig
    model: str
    """Its name there."""
    own_end_ids: frozenset[int]
    """Tokens at which the model ends by itself."""
    exact: bool
    """The model's own tokenizer is configured: prompts are sent, and answers are read, as tokens."""


@dataclass(frozen=True, slots=True)
class OutgoingRequest:
    """One HTTP request."""

    candidates: tuple[int, ...]
    """Candidate number of each choice, by the choice's index."""
    body: dict[str, Any]
    n_echoed: int
    """Entries of each choice that are the prompt's."""


ANSWER_BYTES = 2**20
"""What an answer may have around its tokens: heads, counts, comments."""

TOKEN_BYTES = 4 * 2**10
"""What one token may take: an event of its own, padded."""

LISTED_BYTES = 512
"""What each token beside it may take where likely ones are listed."""


def most_answer_bytes(outgoing: OutgoingRequest) -> int:
    """More than the answer to a request can have."""
    listed = 1 + int(outgoing.body.get("logprobs") or 0)
    n_tokens = int(outgoing.body["max_tokens"]) + outgoing.n_echoed
    # What is echoed comes with every choice.
    return ANSWER_BYTES + len(outgoing.candidates) * n_tokens * (TOKEN_BYTES + LISTED_BYTES * listed)


def outgoing_requests(request: GenerationRequest, target: Target) -> list[OutgoingRequest]:
    """The requests that make up the answer; the first one's usage counts the prompt."""
    supports = target.vendor.supports
    stops = _stops(request, target)
    in_one = request.n_candidates > 1 and supports.n
    if request.sampling.is_greedy and not supports.greedy_n:
        in_one = False
    if request.stops and not stops:
        # Stops are found here: a stopped candidate would be sampled on until all of its request have ended.
        in_one = False
    if request.beams is not None:
        in_one = True
    if request.max_tokens == 0:
        return [_outgoing(request, target, (0,), stops, scores=request.prompt_logprobs)]
    if in_one:
        candidates = tuple(range(request.n_candidates))
        return [_outgoing(request, target, candidates, stops, scores=request.prompt_logprobs)]
    return [
        _outgoing(request, target, (candidate,), stops, scores=request.prompt_logprobs if candidate == 0 else None)
        for candidate in range(request.n_candidates)
    ]


def _outgoing(
    request: GenerationRequest,
    target: Target,
    candidates: tuple[int, ...],
    stops: dict[str, Any],
    *,
    scores: int | None,
) -> OutgoingRequest:
    supports = target.vendor.supports
    body: dict[str, Any] = {
        "model": target.model,
        "prompt": list(request.prompt) if target.exact else text_of(request.prompt),
        "max_tokens": request.max_tokens if supports.zero_tokens else max(request.max_tokens, 1),
        "stream": True,
        **_sampling(request, target),
        **_ends(request, target),
        **_bans(request),
        **stops,
    }
    if supports.stream_usage:
        body["stream_options"] = {"include_usage": True}
    if supports.seed:
        seed = derived_seed(request.seed, request.prompt_index, candidates[0])
        body["seed"] = seed_of_32_bits(seed) if target.vendor.kind == "llama-server" else seed
    if request.grammar is not None:
        body |= _form(request.grammar, target.vendor.kind)
    if len(candidates) > 1:
        body["n"] = len(candidates)
    if request.beams is not None:
        body |= {"use_beam_search": True, **asdict(request.beams)}
    if request.guidance is not None:
        body |= {"guidance_scale": request.guidance.scale, "negative_prompt": request.guidance.text}
    k = _logprobs(request, target, scores)
    if k is not None:
        body["logprobs"] = k
        if supports.token_ids and target.exact:
            body["return_tokens_as_token_ids"] = True
    if scores is not None:
        body["echo"] = True
    return OutgoingRequest(candidates, body, 0 if scores is None else len(request.prompt))


def _form(grammar: Compiled, server: UpstreamKind) -> dict[str, Any]:
    """A grammar in the field that the kind of server has for it."""
    if server == "vllm":
        return {"structured_outputs": structured_outputs(grammar.written)}
    if server == "llama-server" and grammar.written.kind == "json_schema":
        return {"json_schema": json.loads(grammar.written.text)}
    return {"grammar": grammar.text if server == "afterword" else grammar.written.text}


def _logprobs(request: GenerationRequest, target: Target, scores: int | None) -> int | None:
    """What `logprobs` asks for; with a tokenizer always something, because the sampled tokens are read from there."""
    asked = [k for k in (request.logprobs, scores) if k is not None]
    if target.exact:
        asked.append(0)
    return max([*asked, target.vendor.supports.min_logprobs]) if asked else None


def _sampling(request: GenerationRequest, target: Target) -> dict[str, Any]:
    sampling, kind = request.sampling.plain(), target.vendor.kind
    values = values_of_sampling(sampling)
    body: dict[str, Any] = {
        field.called.get(kind, field.name): values[field.name]
        for field in SAMPLING_FIELDS
        if target.vendor.supports.supports_field(field) and _is_said(field, values, kind)
    }
    biases = body.pop("logit_bias", ())
    if biases:
        body["logit_bias"] = {str(token): _number(bias) for token, bias in biases}
    allowed = body.pop("allowed_token_ids", ())
    if allowed:
        body["allowed_token_ids"] = list(allowed)
    if kind == "llama-server":
        _spell_for_llama_server(body, request)
    return body


def _is_said(field: RequestField, values: dict[str, Any], kind: UpstreamKind) -> bool:
    """Whether it is sent: it changes something, or the server may have another default than ours."""
    if field.modifies is not None:
        return modifies_something(field, values)
    has_our_defaults = kind == "afterword" and field.name in _WRITERS
    return not has_our_defaults or field.is_used(values[field.name])


_WRITERS = frozenset(field.name for field in (*SHAPING_FIELDS, *REPEAT_FIELDS))
"""Samplers of writers' programs."""


def _spell_for_llama_server(body: dict[str, Any], request: GenerationRequest) -> None:
    """What it has another form or default for. Its own order ends with the temperature, ours begins with it."""
    order = request.sampling.shaping.order
    for name in (*ORDER_FIELDS, "dynamic_temperature", "repetition_penalty_range"):
        body.pop(name, None)
    names = (STEPS[name].llama_server for name in order)
    body["samplers"] = [name for name in names if name is not None]
    # Its penalties cover the last 64 tokens by default; ours cover all. It allocates a buffer of this size.
    last = request.sampling.repeats.penalty_range
    body["repeat_last_n"] = len(request.prompt) + request.max_tokens if last is None else last


def _number(bias: float) -> float | int:
    """An integer where it is one: that is the documented type."""
    return int(bias) if bias.is_integer() else bias


def _ends(request: GenerationRequest, target: Target) -> dict[str, Any]:
    """Fields about ends, only where they differ from the default: a server may not know them and refuse."""
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


def _bans(request: GenerationRequest) -> dict[str, Any]:
    bans = request.bans
    fields = {"bad_words": bans.exact, "banned_strings": bans.caseless, "banned_regex": (bans.pattern,)}
    return {name: list(texts) for name, texts in fields.items() if any(texts)}


def _stops(request: GenerationRequest, target: Target) -> dict[str, Any]:
    """The fields about stops; empty if stops are found here alone.

    An upstream lists tokens up to the end of its text. Where answers are read by tokens, the stop must be part of it.
    """
    supports = target.vendor.supports
    included = target.exact or request.include_stop
    if not request.stops or len(request.stops) > supports.max_stops or (included and not supports.include_stop):
        return {}
    stops: dict[str, Any] = {"stop": list(request.stops)}
    return stops | {"include_stop_str_in_output": True} if included else stops
