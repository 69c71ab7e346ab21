"""From a `CompletionBody` to a `Completion`: every default filled in, every prompt tokenized, every limit checked.

The last place where a request's fields can be refused. Plain synchronous code; tokenizing a long text takes a while, so
the caller runs it in a thread then. Knows no HTTP.
"""

import secrets
from dataclasses import replace

from afterword.completions.completion import Completion, Prompt
from afterword.completions.infill import infill
from afterword.completions.missing_features import refuse_missing_features
from afterword.completions.parse import STRICT_LOGPROBS
from afterword.completions.prompts import PromptRules, begins_with_bos, check_ids, check_texts, read_prompt, text_of_ids
from afterword.completions.together import beams_of, best_of, check_together, guidance_of
from afterword.config.tree import ServerConfig
from afterword.engine.base import UNKNOWN_CONTEXT, Capabilities
from afterword.engine.grammars.grammar_compiler import Compiled, GrammarFailed, compiled
from afterword.engine.request import GenerationRequest
from afterword.engine.sampling.banned_patterns import check_pattern
from afterword.engine.sampling.bias import EveryTokenBanned
from afterword.engine.sampling.masks import ends_of
from afterword.errors import ContextExceeded, InvalidRequest
from afterword.fields.bans import Bans, TextBans
from afterword.fields.body import CompletionBody
from afterword.fields.sampling import Sampling
from afterword.fields.shapes import MAX_LOGIT_BIAS, PromptItem, StreamOptions
from afterword.registry import ServedModel
from afterword.tokens import Tokenizer


def resolve(body: CompletionBody, served: ServedModel, server: ServerConfig) -> Completion:
    """The request as it will run, within the limits of `server`. Raises `InvalidRequest` or `ContextExceeded`."""
    n_candidates = best_of(body)
    _check_size(len(body.prompt) * n_candidates, server)
    refuse_missing_features(body, n_candidates, served)
    _check_logprobs(body, served, server)
    _check_suffix(body)
    check_texts((item for item in body.prompt if isinstance(item, str)), server, "prompt")
    check_texts((body.suffix,), server, "suffix")
    if body.prediction is not None:
        check_texts((body.prediction,), server, "prediction")
    check_texts((body.decoding.negative_prompt,), server, "negative_prompt")
    seed = secrets.randbits(63) if body.seed is None else body.seed
    pattern = _pattern(body, served.engine.tokenizer, n_candidates, seed)
    rules = PromptRules(
        add_special_tokens=body.add_special_tokens,
        skip_special_tokens=body.skip_special_tokens,
        keep_last=None if body.truncate_prompt_tokens == -1 else body.truncate_prompt_tokens,
        with_offsets=pattern.prompt_logprobs is not None,
    )
    prompts: list[Prompt] = []
    generations: list[GenerationRequest] = []
    for number, item in enumerate(body.prompt):
        prompt, pending = _prompt(item, body.suffix, served, rules)
        _check_context(prompt, body, served.engine.capabilities)
        generation = replace(
            pattern, prompt=prompt.tokens, prompt_index=number, text_offset=len(prompt.text), pending=pending
        )
        check_together(generation, body, served.engine.capabilities)
        prompts.append(prompt)
        generations.append(generation)
    options = body.stream_options or StreamOptions()
    completion = Completion(
        model=served.name,
        prompts=tuple(prompts),
        generations=tuple(generations),
        n=body.n,
        best_of=n_candidates,
        shown=body.shown,
        stream=body.stream,
        include_usage=options.include_usage,
        continuous_usage=options.continuous_usage_stats,
        include_obfuscation=options.include_obfuscation,
        seed=seed,
        user=body.user,
        priority=body.priority,
        exact_tokens=served.engine.capabilities.exact_tokens,
    )
    _check_answer(completion, server)
    return completion


def _check_answer(completion: Completion, server: ServerConfig) -> None:
    """Before any work: a small request may ask for a long list."""
    if completion.n_listed > server.max_listed:
        shown = completion.shown
        param = "logprobs" if shown.logprobs is not None else "prompt_logprobs"
        raise InvalidRequest(
            f"The answer could list {completion.n_listed} log-probabilities or ids, choices x tokens x (logprobs + 1); "
            f"this server lists at most {server.max_listed} in one answer. Lower 'n', 'logprobs' or 'max_tokens', or "
            "send fewer prompts.",
            param=param if shown.logprobs is not None or shown.prompt_logprobs is not None else "return_token_ids",
            code="integer_above_max_value",
        )


def _check_size(n_candidates: int, server: ServerConfig) -> None:
    if n_candidates > server.max_candidates:
        raise InvalidRequest(
            f"The request asks for {n_candidates} candidates (prompts x best_of, or x n); this server takes at most "
            f"{server.max_candidates} in one request.",
            param="prompt",
            code="array_above_max_length",
        )


def most_logprobs(served: ServedModel, server: ServerConfig) -> int:
    """The largest `logprobs` that a request to this model may ask for."""
    most = min(server.max_logprobs, served.engine.capabilities.max_logprobs)
    return min(most, STRICT_LOGPROBS) if server.strict else most


def _check_logprobs(body: CompletionBody, served: ServedModel, server: ServerConfig) -> None:
    most = most_logprobs(served, server)
    if body.shown.logprobs_format == "base64" and not server.strict:
        # Bounded by what an answer may list.
        most = served.engine.capabilities.max_logprobs
    for param, given in (("logprobs", body.shown.logprobs), ("prompt_logprobs", body.shown.prompt_logprobs)):
        if given is not None and given > most:
            raise InvalidRequest(
                f"'{param}' must be at most {most} for this model, not {given}.",
                param=param,
                code="integer_above_max_value",
            )


def _check_suffix(body: CompletionBody) -> None:
    """With a suffix the engine's tokens are in infill order, so nothing may list them as the prompt or cut them."""
    if body.suffix == "":
        return
    if _prompt_logprobs(body) is not None:
        raise InvalidRequest("'suffix' cannot be combined with log-probabilities of the prompt.", param="suffix")
    if body.truncate_prompt_tokens != -1:
        raise InvalidRequest("'suffix' cannot be combined with 'truncate_prompt_tokens'.", param="suffix")


def _check_context(prompt: Prompt, body: CompletionBody, can: Capabilities) -> None:
    """Unless tokens or context are unknown here: then the server behind the model checks."""
    if not can.exact_tokens or can.context == UNKNOWN_CONTEXT:
        return
    n_prompt = len(prompt.tokens)
    if n_prompt + body.max_tokens > can.context:
        raise ContextExceeded(
            limit=can.context,
            prompt_tokens=n_prompt,
            max_tokens=body.max_tokens,
            can_truncate=body.suffix == "",
        )


def _pattern(body: CompletionBody, tokenizer: Tokenizer, n_candidates: int, seed: int) -> GenerationRequest:
    """The request to the engine with what all prompts have in common; the prompt in it is a placeholder."""
    beams = beams_of(body)
    return GenerationRequest(
        prompt=(tokenizer.separator_id,),
        n_candidates=n_candidates,
        max_tokens=body.max_tokens,
        sampling=_sampling(body, tokenizer),
        seed=seed,
        reproducible=body.seed is not None or beams is not None,
        min_tokens=body.max_tokens if _goes_on(body) and body.constraints.given else body.min_tokens,
        end_ids=_end_ids(body, tokenizer),
        grammar=_grammar(body),
        beams=beams,
        guidance=guidance_of(body, tokenizer),
        bans=_text_bans(body.bans),
        predicted=_predicted(body, tokenizer),
        stops=body.stop,
        include_stop=body.include_stop_str_in_output,
        skip_special_tokens=body.skip_special_tokens,
        logprobs=_logprobs(body, n_candidates),
        prompt_logprobs=_prompt_logprobs(body),
        named_ids=_named_ids(body, tokenizer),
        streamed=body.stream,
    )


def _sampling(body: CompletionBody, tokenizer: Tokenizer) -> Sampling:
    check_ids((token for token, _ in body.sampling.logit_bias), tokenizer, "logit_bias")
    check_ids(body.sampling.allowed_token_ids, tokenizer, "allowed_token_ids")
    try:
        sampling = replace(body.sampling.applied(), logit_bias=_biases(body, tokenizer))
    except ValueError as error:
        raise InvalidRequest(str(error), param="dynatemp_low") from None
    if body.decoding.searches:
        # A search draws nothing.
        sampling = replace(sampling, temperature=0.0).plain()
    if not body.do_sample:
        sampling = replace(sampling, temperature=0.0)
    keeps_all = not 0 < sampling.top_k < tokenizer.n_vocab
    return replace(sampling, top_k=0) if keeps_all else sampling


def _biases(body: CompletionBody, tokenizer: Tokenizer) -> tuple[tuple[int, float], ...]:
    """`logit_bias` and the tokens that are banned by their ids."""
    check_ids(body.bans.custom_token_bans, tokenizer, "custom_token_bans")
    check_ids(body.bans.ids, tokenizer, "banned_tokens")
    banned = set(body.bans.ids)
    if body.bans.ban_eos_token and not body.constraints.given:
        banned |= tokenizer.end_ids
    biases = body.sampling.logit_bias
    forced = {token for token, bias in biases if bias >= MAX_LOGIT_BIAS}
    if forced and forced <= banned:
        raise EveryTokenBanned("logit_bias", "custom_token_bans")
    return (*(one for one in biases if one[0] not in banned), *((token, -MAX_LOGIT_BIAS) for token in sorted(banned)))


def _predicted(body: CompletionBody, tokenizer: Tokenizer) -> tuple[int, ...] | None:
    """Where nothing is generated nothing is predicted."""
    if body.prediction is None or body.max_tokens == 0:
        return None
    return tuple(tokenizer.encode(body.prediction, add_bos=False, parse_special=False))


def _text_bans(bans: Bans) -> TextBans:
    """All bans of texts. Raises `InvalidRequest` for an expression that cannot be looked for."""
    patterns: list[str] = []
    for name, pattern in bans.patterns.items():
        try:
            check_pattern(pattern)
        except GrammarFailed as error:
            raise InvalidRequest(f"'{name}' {error}", param=name, code="invalid_value") from None
        patterns.append(pattern)
    return TextBans(bans.exact, bans.banned_strings, "|".join(patterns))


def _goes_on(body: CompletionBody) -> bool:
    """Whether the model's own end is none."""
    return body.ignore_eos or body.bans.ban_eos_token


def _grammar(body: CompletionBody) -> Compiled | None:
    """The one grammar of a request, compiled."""
    given = body.constraints.given
    if len(given) > 1:
        first, second = list(given)[:2]
        raise InvalidRequest(f"'{second}' cannot be combined with '{first}': an answer has one form.", param=second)
    for name, grammar in given.items():
        try:
            return compiled(grammar)
        except GrammarFailed as error:
            raise InvalidRequest(f"'{name}' {error}", param=name, code="invalid_value") from None
    return None


def _end_ids(body: CompletionBody, tokenizer: Tokenizer) -> frozenset[int]:
    check_ids(body.stop_token_ids, tokenizer, "stop_token_ids")
    own: frozenset[int] = frozenset() if body.ignore_eos else tokenizer.end_ids
    if body.constraints.given:
        # Where the grammar allows nothing more, the answer ends, also with `ignore_eos`.
        own = ends_of(tokenizer)
    spelled = (_control_token(stop, tokenizer) for stop in body.stop)
    return own.union(body.stop_token_ids, (token for token in spelled if token is not None))


def _control_token(stop: str, tokenizer: Tokenizer) -> int | None:
    """The one control token that `stop` spells. It has no text, so matching text would never find it."""
    tokens = tokenizer.encode(stop, add_bos=False, parse_special=True)
    return tokens[0] if len(tokens) == 1 and tokenizer.is_control(tokens[0]) else None


def _logprobs(body: CompletionBody, n_candidates: int) -> int | None:
    """Also 0, to rank candidates or to list token ids: engines list tokens only with log-probabilities."""
    needed = (n_candidates > body.n and not body.decoding.searches) or body.shown.lists_tokens
    return 0 if needed and body.shown.logprobs is None else _columns(body, body.shown.logprobs)


def _prompt_logprobs(body: CompletionBody) -> int | None:
    """The larger k of `echo` with `logprobs` and of the extension; the assembler cuts off what either does not show."""
    asked = (body.shown.logprobs if body.shown.echo else None, body.shown.prompt_logprobs)
    return _columns(body, max((k for k in asked if k is not None), default=None))


def _columns(body: CompletionBody, k: int | None) -> int | None:
    """How many of the likeliest tokens are listed: none where named ones are, in their place."""
    return None if k is None else 0 if body.shown.logprob_token_ids else k


def _named_ids(body: CompletionBody, tokenizer: Tokenizer) -> tuple[int, ...]:
    check_ids(body.shown.logprob_token_ids, tokenizer, "logprob_token_ids")
    return tuple(dict.fromkeys(body.shown.logprob_token_ids))


def _prompt(item: PromptItem, suffix: str, served: ServedModel, rules: PromptRules) -> tuple[Prompt, bytes]:
    tokenizer = served.engine.tokenizer
    if suffix == "":
        return read_prompt(item, tokenizer, rules)
    text, pending = (item, b"") if isinstance(item, str) else _prefix_text(item, tokenizer, rules)
    tokens = infill(served, item, suffix)
    if begins_with_bos(tokenizer, rules):
        assert tokenizer.bos_id is not None
        tokens = (tokenizer.bos_id, *tokens)
    return Prompt(text=text, tokens=tokens, offsets=()), pending


def _prefix_text(ids: tuple[int, ...], tokenizer: Tokenizer, rules: PromptRules) -> tuple[str, bytes]:
    check_ids(ids, tokenizer, "prompt")
    return text_of_ids(ids, tokenizer, skip_special_tokens=rules.skip_special_tokens)
