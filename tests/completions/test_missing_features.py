"""What a model lacks is refused by the name of the field that asks for it, and nothing else is."""

from dataclasses import replace
from typing import Any

import pytest
from tests.completions.scripted import CAPABILITIES, ScriptedEngine, body, completion

from afterword.completions.missing_features import used_features
from afterword.engine.base import UNKNOWN_CONTEXT
from afterword.errors import ContextExceeded, InvalidRequest
from afterword.fields.table import FEATURES, FIELDS
from afterword.registry import ServedModel

_PENALTY = {"repetition_penalty": 1.1}

USES: dict[str, tuple[dict[str, Any], str]] = {
    "token_prompts": ({"prompt": ["a", [1, 2]][1:]}, "prompt"),
    "logprobs": ({"logprobs": 0}, "logprobs"),
    "prompt_logprobs": ({"prompt_logprobs": 0}, "prompt_logprobs"),
    "best_of": ({"best_of": 2}, "best_of"),
    "logit_bias": ({"logit_bias": {"5": 1}}, "logit_bias"),
    "penalties": ({"presence_penalty": 0.5}, "presence_penalty"),
    "seed": ({"seed": 0}, "seed"),
    "top_k": ({"top_k": 2}, "top_k"),
    "min_p": ({"min_p": 0.5}, "min_p"),
    "repetition_penalty": ({"repetition_penalty": 1.1}, "repetition_penalty"),
    "repetition_penalty_range": ({"repetition_penalty_range": 9} | _PENALTY, "repetition_penalty_range"),
    "repeat_last_n": ({"repeat_last_n": 9} | _PENALTY, "repeat_last_n"),
    "rep_pen_slope": ({"rep_pen_slope": 0.5} | _PENALTY, "rep_pen_slope"),
    "typical_p": ({"typical": 0.5}, "typical_p"),
    "top_n_sigma": ({"nsigma": 1}, "top_n_sigma"),
    "top_a": ({"top_a": 0.2}, "top_a"),
    "tfs": ({"tfs_z": 0.9}, "tfs"),
    "epsilon_cutoff": ({"epsilon_cutoff": 3}, "epsilon_cutoff"),
    "eta_cutoff": ({"eta_cutoff": 3}, "eta_cutoff"),
    "xtc_probability": ({"xtc_probability": 0.5, "xtc_threshold": 0.2}, "xtc_probability"),
    "dynatemp_range": ({"dynatemp_range": 0.5, "dynatemp_exponent": 2}, "dynatemp_range"),
    "dynamic_temperature": ({"dynamic_temperature": True, "dynatemp_high": 2}, "dynamic_temperature"),
    "smoothing_factor": ({"smoothing_factor": 0.3, "smoothing_curve": 2}, "smoothing_factor"),
    "skew": ({"skew": -0.5}, "skew"),
    "mirostat": ({"mirostat_mode": 2, "mirostat_tau": 3, "mirostat_eta": 0.2}, "mirostat"),
    "adaptive_target": ({"adaptive_target": 0.5, "adaptive_decay": 0.5}, "adaptive_target"),
    "min_keep": ({"min_keep": 2}, "min_keep"),
    "temperature_last": ({"temperature_last": True}, "temperature_last"),
    "samplers": ({"samplers": ["penalties", "top_k", "temperature"]}, "samplers"),
    "sampler_priority": ({"sampler_order": [6, 0, 1, 3, 4, 2, 5]}, "sampler_priority"),
    "dry_multiplier": (
        {"dry_multiplier": 0.8, "dry_base": 2, "dry_allowed_length": 3, "dry_sequence_breakers": "[]"},
        "dry_multiplier",
    ),
    "no_repeat_ngram_size": ({"no_repeat_ngram_size": 3}, "no_repeat_ngram_size"),
    "grammars": ({"guided_regex": "a+"}, "guided_regex"),
    "beams": ({"use_beam_search": True}, "use_beam_search"),
    "guidance_scale": ({"guidance_scale": 2}, "guidance_scale"),
    "bans": ({"banned_strings": ["a"]}, "banned_strings"),
    "bad_words": ({"bad_words": ["a"]}, "bad_words"),
    "allowed_token_ids": ({"allowed_tokens": "7"}, "allowed_token_ids"),
    "ignore_eos": ({"ignore_eos": True}, "ignore_eos"),
    "min_tokens": ({"min_tokens": 1}, "min_tokens"),
    "stop_token_ids": ({"stop_token_ids": [5]}, "stop_token_ids"),
    "add_special_tokens": ({"add_special_tokens": False}, "add_special_tokens"),
    "skip_special_tokens": ({"skip_special_tokens": False}, "skip_special_tokens"),
    "truncate_prompt_tokens": ({"truncate_prompt_tokens": 3}, "truncate_prompt_tokens"),
    "return_token_ids": ({"return_token_ids": True}, "return_token_ids"),
    "logprob_token_ids": ({"logprob_token_ids": [5], "logprobs": 0}, "logprob_token_ids"),
    "prediction": ({"prediction": {"type": "content", "content": "abc"}}, "prediction"),
}
"""Feature -> a request that uses it and no other but what it modifies, and the field that is named."""

NEUTRAL: dict[str, Any] = {
    "prompt": ["a", "b"],
    "best_of": 3,
    "n": 3,
    "logit_bias": {},
    "presence_penalty": 0,
    "top_k": 1,
    "min_p": 1,
    "repetition_penalty": 1,
    "stop_token_ids": [],
    "banned_strings": "",
    "banned_tokens": "",
    "custom_token_bans": ", ",
    "allowed_token_ids": [],
    "truncate_prompt_tokens": -1,
    "repeat_last_n": 9,
    "dry_base": 3,
    "xtc_threshold": 0.3,
    "mirostat_tau": 1,
    "dynatemp_high": 3,
    "adaptive_target": -0.01,
    "top_n_sigma": -1,
    "num_beams": 1,
    "length_penalty": 2,
    "early_stopping": True,
    "guidance_scale": 1,
    "negative_prompt": "bad",
    "min_keep": 1,
}
"""Values that every model can do without any of the features: one token left to draw is greedy, however it was said."""


def lacking(*features: str) -> ServedModel:
    lacks = dict.fromkeys(features, "nobody can.")
    return ServedModel("small", ScriptedEngine(capabilities=replace(CAPABILITIES, lacks=lacks)), 0)


def test_every_feature_is_used_by_a_request() -> None:
    assert set(USES) == set(FEATURES)


@pytest.mark.parametrize("feature", FEATURES)
def test_a_request_uses_the_feature_it_asks_for_alone(feature: str) -> None:
    fields, param = USES[feature]
    used = used_features(body(**fields), fields.get("best_of", 1))
    modified = {name for field in FIELDS if field.name == param for name in (field.modifies, field.goes_with)}
    kinds = {"grammars_regex"} if feature == "grammars" else set()
    assert {name: said[0] for name, said in used.items() if name not in modified | kinds} == {feature: param}
    assert kinds <= used.keys()


@pytest.mark.parametrize("feature", FEATURES)
def test_what_the_model_lacks_is_refused_by_name(feature: str) -> None:
    fields, param = USES[feature]
    with pytest.raises(InvalidRequest, match=r"The model 'small' does not support .*: nobody can\.") as refused:
        completion(lacking(feature), **fields)
    assert (refused.value.param, refused.value.code) == (param, "unsupported_parameter")
    assert f"'{param}'" in str(refused.value)


@pytest.mark.parametrize("feature", [feature for feature in FEATURES if feature != "seed"])
def test_what_the_model_lacks_and_nobody_asks_for_does_no_harm(feature: str) -> None:
    modifiers = {field.feature for field in FIELDS if feature in (field.modifies, field.goes_with)}
    others = {name for name in FEATURES if name != feature} - modifiers
    assert completion(lacking(feature), prompt="a").model == "small"
    for other in others - {feature}:
        assert completion(lacking(feature), **({"prompt": "a"} | USES[other][0])).model == "small"


def test_values_that_change_nothing_use_nothing() -> None:
    assert used_features(body(**NEUTRAL), 3) == {}


def test_a_greedy_request_uses_no_cut() -> None:
    assert used_features(body(temperature=0, top_k=5, min_p=0.5), 1) == {}
    assert set(used_features(body(temperature=0, repetition_penalty=2), 1)) == {"repetition_penalty"}


def test_an_echo_with_log_probabilities_is_a_scored_prompt() -> None:
    with pytest.raises(InvalidRequest, match="'logprobs' together with 'echo'") as refused:
        completion(lacking("prompt_logprobs"), prompt="a", echo=True, logprobs=0)
    assert refused.value.param == "logprobs"
    assert completion(lacking("prompt_logprobs"), prompt="a", logprobs=0).shown.logprobs == 0


def test_a_prompt_is_measured_only_by_whoever_knows_its_tokens_and_the_context() -> None:
    long = "a" * 100
    with pytest.raises(ContextExceeded):
        completion(lacking(), prompt=long)
    for unknown in (replace(CAPABILITIES, exact_tokens=False), replace(CAPABILITIES, context=UNKNOWN_CONTEXT)):
        served = ServedModel("small", ScriptedEngine(capabilities=unknown), 0)
        assert completion(served, prompt=long).prompts[0].text == long
