"""Requests for whose answers several sequences are computed: what they come to mean, and what slots they need."""

from afterword.completions.prompts import PromptRules, read_prompt
from afterword.engine.base import UNKNOWN_CONTEXT, Capabilities
from afterword.engine.request import Beams, GenerationRequest, Guidance
from afterword.errors import InvalidRequest
from afterword.fields.body import CompletionBody
from afterword.tokens import Tokenizer


def best_of(body: CompletionBody) -> int:
    """Candidates for each prompt, or beams."""
    n_beams = body.decoding.num_beams
    if n_beams > 1 and body.best_of not in (None, n_beams):
        raise InvalidRequest(
            f"'num_beams' ({n_beams}) and 'best_of' ({body.best_of}) must be the same: both are the number of beams.",
            param="num_beams",
        )
    param, given = _number_of_beams(body)
    if given is None:
        return body.n
    if given < body.n:
        raise InvalidRequest(
            f"'{param}' ({given}) must not be less than 'n' ({body.n}): it is the number of candidates that "
            "the n choices are taken from.",
            param=param,
        )
    if given > body.n and body.stream:
        raise InvalidRequest(
            f"'{param}' ({given}) greater than 'n' ({body.n}) cannot be streamed: the best are known at the end only.",
            param=param,
        )
    return given


def _number_of_beams(body: CompletionBody) -> tuple[str, int | None]:
    """Whichever field says it, and what it says."""
    n_beams = body.decoding.num_beams
    return ("num_beams", n_beams) if n_beams > 1 else ("best_of", body.best_of)


def beams_of(body: CompletionBody) -> Beams | None:
    """Where nothing is generated nothing is searched for."""
    decoding = body.decoding
    if not decoding.searches or body.max_tokens == 0:
        return None
    return Beams(decoding.length_penalty, decoding.early_stopping)


def guidance_of(body: CompletionBody, tokenizer: Tokenizer) -> Guidance | None:
    """Where nothing is generated nothing is guided."""
    decoding = body.decoding
    if decoding.guidance_scale == 1.0 or body.max_tokens == 0:
        return None
    if decoding.searches:
        raise InvalidRequest("'guidance_scale' cannot be combined with a beam search.", param="guidance_scale")
    rules = PromptRules(
        add_special_tokens=body.add_special_tokens, skip_special_tokens=True, keep_last=None, with_offsets=False
    )
    prompt, _ = read_prompt(decoding.negative_prompt, tokenizer, rules)
    return Guidance(decoding.guidance_scale, decoding.negative_prompt, prompt.tokens)


def check_together(request: GenerationRequest, body: CompletionBody, can: Capabilities) -> None:
    """Refuse what is never computed: sequences that need slots at once have them for the whole time."""
    if request.beams is not None:
        _check_nothing_is_taken_back(body)
        _check_slots(
            "A beam search", _number_of_beams(body)[0], [len(request.prompt)] * request.n_candidates, body, can
        )
    elif request.guidance is not None:
        n_negative = len(request.guidance.tokens)
        if can.exact_tokens and UNKNOWN_CONTEXT < can.context < n_negative + body.max_tokens:
            raise InvalidRequest(
                f"'negative_prompt' has {n_negative} tokens, with 'max_tokens' {n_negative + body.max_tokens}; this "
                f"model's context is {can.context}.",
                param="negative_prompt",
                code="context_length_exceeded",
            )
        _check_slots("'guidance_scale'", "guidance_scale", [len(request.prompt), n_negative], body, can)


def _check_nothing_is_taken_back(body: CompletionBody) -> None:
    """A beam search only ever goes on."""
    bans = body.bans
    if bans.exact or bans.banned_strings or bans.patterns:
        param = _number_of_beams(body)[0] if body.decoding.num_beams > 1 else "use_beam_search"
        raise InvalidRequest(f"'{param}' cannot be combined with texts that are banned.", param=param)


def _check_slots(what: str, param: str, lengths: list[int], body: CompletionBody, can: Capabilities) -> None:
    """`lengths`: prompt tokens of the sequences."""
    if len(lengths) > can.n_slots:
        raise InvalidRequest(
            f"{what} needs {len(lengths)} slots at once; this model has {can.n_slots} (`parallel`).",
            param=param,
            code="integer_above_max_value",
        )
    n_needed = sum(lengths) + len(lengths) * body.max_tokens
    if can.n_cells is not None and n_needed > can.n_cells:
        raise InvalidRequest(
            f"{what} needs {n_needed} tokens at once ({len(lengths)} sequences of prompt and max_tokens); all slots of "
            f"this model together hold {can.n_cells}.",
            param="max_tokens",
            code="integer_above_max_value",
        )
