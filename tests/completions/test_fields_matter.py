"""No field is taken and then ignored: each changes what is done, or is refused."""

from typing import Any

import pytest
from tests.completions.scripted import MID, PRE, SUF, AsciiTokenizer, completion, served

from afterword.completions.completion import Completion
from afterword.fields.shapes import StreamOptions
from afterword.fields.table import FIELDS
from afterword.tokens import InfillTokens

ELSEWHERE = {"model", "stream_options"}
"""The one is chosen from the registry before a request is resolved, the other's own fields are walked below."""

CHANGES: dict[str, Any] = {
    "prompt": "other",
    "best_of": 2,
    "echo": True,
    "frequency_penalty": 0.5,
    "logit_bias": {"5": 1},
    "logprobs": 0,
    "max_tokens": 0,
    "n": 2,
    "presence_penalty": 0.5,
    "seed": 1,
    "stop": "x",
    "stream": True,
    "suffix": "after",
    "temperature": 0,
    "top_p": 0,
    "user": "somebody",
    "priority": 1,
    "prediction": {"type": "content", "content": "abc"},
    "top_k": 1,
    "min_p": 0.1,
    "repetition_penalty": 1.1,
    "ignore_eos": True,
    "min_tokens": 1,
    "stop_token_ids": [7],
    "add_special_tokens": False,
    "skip_special_tokens": False,
    "include_stop_str_in_output": True,
    "truncate_prompt_tokens": 1,
    "prompt_logprobs": 0,
    "logprob_token_ids": [7],
    "logprobs_format": "base64",
    "return_tokens_as_token_ids": True,
    "return_token_ids": True,
    "typical_p": 0.5,
    "top_n_sigma": 1,
    "top_a": 0.2,
    "tfs": 0.9,
    "epsilon_cutoff": 3,
    "eta_cutoff": 3,
    "xtc_probability": 0.5,
    "xtc_threshold": 0.2,
    "dynatemp_range": 0.5,
    "dynatemp_exponent": 2,
    "dynamic_temperature": True,
    "dynatemp_low": 0.5,
    "dynatemp_high": 1.5,
    "smoothing_factor": 0.2,
    "smoothing_curve": 2,
    "skew": 0.3,
    "mirostat": 2,
    "mirostat_tau": 4,
    "mirostat_eta": 0.2,
    "adaptive_target": 0.4,
    "adaptive_decay": 0.5,
    "min_keep": 2,
    "temperature_last": True,
    "samplers": ["top_p", "temperature"],
    "sampler_priority": ["top_p"],
    "repetition_penalty_range": 64,
    "repeat_last_n": 64,
    "rep_pen_slope": 0.5,
    "dry_multiplier": 0.8,
    "dry_base": 2,
    "dry_allowed_length": 3,
    "dry_penalty_last_n": 64,
    "dry_sequence_breakers": ["!"],
    "no_repeat_ngram_size": 3,
    "do_sample": False,
    "use_beam_search": True,
    "num_beams": 2,
    "length_penalty": 2,
    "early_stopping": True,
    "guidance_scale": 2,
    "negative_prompt": "bad",
    "json_schema": {"type": "object"},
    "regex": "a+",
    "grammar": 'start: "a"',
    "guided_choice": ["a"],
    "response_format": {"type": "json_object"},
    "structured_outputs": {"regex": "a+"},
    "guided_json": {"type": "object"},
    "guided_json_object": True,
    "guided_regex": "a+",
    "guided_grammar": 'start: "a"',
    "ebnf": 'root ::= "a"',
    "banned_strings": ["a"],
    "bad_words": ["a"],
    "banned_regex": ["a+"],
    "banned_regex_case_insensitive": ["a+"],
    "banned_tokens": ["a"],
    "custom_token_bans": [7],
    "ban_eos_token": True,
    "allowed_token_ids": [7],
}
MODIFIES = (
    {field.name: field.modifies for field in FIELDS if field.modifies is not None}
    | dict.fromkeys(("length_penalty", "early_stopping"), "use_beam_search")
    | {"negative_prompt": "guidance_scale"}
)
MODIFIES |= {field.name: field.goes_with for field in FIELDS if field.goes_with is not None}
BASE: dict[str, Any] = {"prompt": "some text"}


def marked() -> AsciiTokenizer:
    return AsciiTokenizer(infill=InfillTokens(prefix=PRE, suffix=SUF, middle=MID))


@pytest.mark.parametrize("name", [field.name for field in FIELDS if field.name not in ELSEWHERE])
def test_every_field_changes_what_is_done(name: str) -> None:
    model = served(marked())
    base = BASE | {modified: CHANGES[modified] for modified in [MODIFIES.get(name)] if modified is not None}
    if name == "dynamic_temperature":
        base = BASE | {"dynatemp_high": 1.5}
    assert completion(model, **(base | {name: CHANGES[name]})) != completion(model, **base)


def sampled(request: Completion) -> list[tuple[Any, ...]]:
    """Whatever decides which tokens each candidate samples."""
    names = (
        "prompt",
        "n_candidates",
        "max_tokens",
        "sampling",
        "seed",
        "prompt_index",
        "min_tokens",
        "end_ids",
        "grammar",
        "bans",
        "stops",
    )
    return [tuple(getattr(one, name) for name in names) for one in request.generations]


@pytest.mark.parametrize("name", [field.name for field in FIELDS if field.kind != "sampling"])
def test_a_field_that_only_shapes_the_answer_samples_the_same_tokens(name: str) -> None:
    if name not in ELSEWHERE:
        base = BASE | {modified: CHANGES[modified] for modified in [MODIFIES.get(name)] if modified is not None}
        assert sampled(completion(**(base | {name: CHANGES[name]}))) == sampled(completion(**BASE))


@pytest.mark.parametrize("name", StreamOptions.model_fields)
def test_every_stream_option_changes_what_is_done(name: str) -> None:
    default = StreamOptions.model_fields[name].default
    streamed = BASE | {"stream": True}
    assert completion(**(streamed | {"stream_options": {name: not default}})) != completion(**streamed)
    assert completion(**(streamed | {"stream_options": {name: default}})) == completion(**streamed)
