import json
from typing import Any

import pytest

from afterword.completions.parse import body_schema, parse_body
from afterword.errors import InvalidRequest
from afterword.fields.order import DEFAULT_ORDER
from afterword.fields.table import FIELDS, values_of


def refused(fields: dict[str, Any], *, strict: bool = False) -> tuple[str | None, str | None, str]:
    with pytest.raises(InvalidRequest) as caught:
        parse_body(fields, strict=strict)
    json.dumps(str(caught.value), ensure_ascii=False).encode("utf-8")
    return caught.value.param, caught.value.code, str(caught.value)


def test_nothing_given_means_the_documented_defaults() -> None:
    assert values_of(parse_body({}, strict=True)) == {
        "model": None,
        "prompt": ("",),
        "best_of": None,
        "echo": False,
        "frequency_penalty": 0.0,
        "logit_bias": (),
        "logprobs": None,
        "max_tokens": 16,
        "n": 1,
        "presence_penalty": 0.0,
        "seed": None,
        "stop": (),
        "stream": False,
        "stream_options": None,
        "suffix": "",
        "temperature": 1.0,
        "top_p": 1.0,
        "user": None,
        "priority": None,
        "prediction": None,
        "top_k": 0,
        "min_p": 0.0,
        "repetition_penalty": 1.0,
        "ignore_eos": False,
        "min_tokens": 0,
        "stop_token_ids": (),
        "add_special_tokens": True,
        "skip_special_tokens": True,
        "include_stop_str_in_output": False,
        "truncate_prompt_tokens": -1,
        "prompt_logprobs": None,
        "logprob_token_ids": (),
        "logprobs_format": "",
        "return_tokens_as_token_ids": False,
        "return_token_ids": False,
        "typical_p": 1.0,
        "top_n_sigma": 0.0,
        "top_a": 0.0,
        "tfs": 1.0,
        "epsilon_cutoff": 0.0,
        "eta_cutoff": 0.0,
        "xtc_probability": 0.0,
        "xtc_threshold": 0.1,
        "dynatemp_range": 0.0,
        "dynatemp_exponent": 1.0,
        "dynamic_temperature": False,
        "dynatemp_low": 1.0,
        "dynatemp_high": 1.0,
        "smoothing_factor": 0.0,
        "smoothing_curve": 1.0,
        "skew": 0.0,
        "mirostat": 0,
        "mirostat_tau": 5.0,
        "mirostat_eta": 0.1,
        "adaptive_target": -1.0,
        "adaptive_decay": 0.9,
        "min_keep": 0,
        "temperature_last": False,
        "samplers": DEFAULT_ORDER,
        "sampler_priority": (),
        "repetition_penalty_range": None,
        "repeat_last_n": -1,
        "rep_pen_slope": 1.0,
        "dry_multiplier": 0.0,
        "dry_base": 1.75,
        "dry_allowed_length": 2,
        "dry_penalty_last_n": -1,
        "dry_sequence_breakers": ("\n", ":", '"', "*"),
        "no_repeat_ngram_size": 0,
        "do_sample": True,
        "use_beam_search": False,
        "num_beams": 1,
        "length_penalty": 1.0,
        "early_stopping": False,
        "guidance_scale": 1.0,
        "negative_prompt": "",
        "json_schema": None,
        "regex": None,
        "grammar": None,
        "guided_choice": None,
        "response_format": None,
        "structured_outputs": None,
        "guided_json": None,
        "guided_json_object": None,
        "guided_regex": None,
        "guided_grammar": None,
        "ebnf": None,
        "banned_strings": (),
        "bad_words": (),
        "banned_regex": (),
        "banned_regex_case_insensitive": (),
        "banned_tokens": (),
        "custom_token_bans": (),
        "ban_eos_token": False,
        "allowed_token_ids": (),
    }


@pytest.mark.parametrize("name", [field.name for field in FIELDS])
def test_null_is_not_given(name: str) -> None:
    assert parse_body({name: None}, strict=True) == parse_body({}, strict=True)


def test_null_is_not_given_inside_stream_options() -> None:
    given = {"include_usage": None, "include_obfuscation": None, "continuous_usage_stats": None}
    options = parse_body({"stream": True, "stream_options": given}, strict=True).stream_options
    assert options is not None
    assert options.model_dump() == {
        "include_usage": False,
        "include_obfuscation": True,
        "continuous_usage_stats": False,
    }


@pytest.mark.parametrize("data", [[], "x", 1, None], ids=["array", "string", "number", "null"])
def test_a_body_is_an_object(data: object) -> None:
    with pytest.raises(InvalidRequest, match="must be an object") as caught:
        parse_body(data, strict=False)
    assert (caught.value.param, caught.value.code) == (None, "invalid_type")


INTEGERS = ["best_of", "logprobs", "max_tokens", "n", "seed", "top_k", "min_tokens", "truncate_prompt_tokens"]
INTEGERS += ["prompt_logprobs"]
NUMBERS = ["frequency_penalty", "presence_penalty", "temperature", "top_p", "min_p", "repetition_penalty"]
BOOLEANS = ["echo", "stream", "ignore_eos", "add_special_tokens", "skip_special_tokens", "include_stop_str_in_output"]
BOOLEANS += ["return_tokens_as_token_ids", "return_token_ids"]
STRINGS = ["model", "suffix", "user"]


@pytest.mark.parametrize("value", [True, "1", 1.5, 1.0, [1], {}], ids=str)
@pytest.mark.parametrize("name", INTEGERS)
def test_only_integers_are_integers(name: str, value: object) -> None:
    param, code, message = refused({name: value})
    assert (param, code) == (name, "invalid_type")
    assert message.startswith(f"'{name}' must be an integer, not a")


@pytest.mark.parametrize("value", [True, "1", [1], {}], ids=str)
@pytest.mark.parametrize("name", NUMBERS)
def test_only_numbers_are_numbers(name: str, value: object) -> None:
    assert refused({name: value})[:2] == (name, "invalid_type")


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 10**400], ids=["nan", "inf", "too-large"])
@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_are_finite(name: str, value: object) -> None:
    assert refused({name: value}) == (name, "invalid_type", f"'{name}' must be a finite number.")


@pytest.mark.parametrize("value", [1, 0, "true", []], ids=str)
@pytest.mark.parametrize("name", BOOLEANS)
def test_only_booleans_are_booleans(name: str, value: object) -> None:
    assert refused({name: value})[:2] == (name, "invalid_type")


@pytest.mark.parametrize("value", [1, False, ["x"], {}], ids=str)
@pytest.mark.parametrize("name", STRINGS)
def test_only_strings_are_strings(name: str, value: object) -> None:
    assert refused({name: value})[:2] == (name, "invalid_type")


@pytest.mark.parametrize(
    ("name", "value", "code", "limit"),
    [
        ("best_of", 0, "integer_below_min_value", "at least 1, not 0"),
        ("best_of", 21, "integer_above_max_value", "at most 20, not 21"),
        ("n", 0, "integer_below_min_value", "at least 1, not 0"),
        ("n", 129, "integer_above_max_value", "at most 128, not 129"),
        ("max_tokens", -1, "integer_below_min_value", "at least 0, not -1"),
        ("logprobs", -1, "integer_below_min_value", "at least 0, not -1"),
        ("prompt_logprobs", -1, "integer_below_min_value", "at least 0, not -1"),
        ("min_tokens", -1, "integer_below_min_value", "at least 0, not -1"),
        ("top_k", -2, "integer_below_min_value", "at least -1, not -2"),
        ("truncate_prompt_tokens", -2, "integer_below_min_value", "at least -1, not -2"),
        ("truncate_prompt_tokens", 0, "integer_below_min_value", "-1 or at least 1, not 0"),
        ("seed", 2**63, "integer_above_max_value", "at most 9223372036854775807, not 9223372036854775808"),
        ("seed", -(2**63) - 1, "integer_below_min_value", "at least -9223372036854775808, not -9223372036854775809"),
        ("temperature", 2.1, "decimal_above_max_value", "at most 2, not 2.1"),
        ("temperature", -0.1, "decimal_below_min_value", "at least 0, not -0.1"),
        ("temperature", 3, "decimal_above_max_value", "at most 2, not 3"),
        ("top_p", 1.01, "decimal_above_max_value", "at most 1, not 1.01"),
        ("top_p", -1, "decimal_below_min_value", "at least 0, not -1"),
        ("min_p", 1.5, "decimal_above_max_value", "at most 1, not 1.5"),
        ("frequency_penalty", -2.5, "decimal_below_min_value", "at least -2, not -2.5"),
        ("presence_penalty", 2.5, "decimal_above_max_value", "at most 2, not 2.5"),
        ("repetition_penalty", 0, "decimal_below_min_value", "greater than 0, not 0"),
        ("stop_token_ids", [5, -3], "integer_below_min_value", "at least 0, not -3"),
        ("logit_bias", {"7": 100.5}, "decimal_above_max_value", "at most 100 for token 7, not 100.5"),
        ("logit_bias", {"7": -101}, "decimal_below_min_value", "at least -100 for token 7, not -101"),
        ("stop_token_ids", ["x"] * 1000, "invalid_type", "must be an integer, not a string"),
        ("stop", ["a" * 4000, "b" * 4001], "string_above_max_length", "at most 8000 characters in all"),
        ("stop", [str(i) for i in range(65)], "array_above_max_length", "at most 64 strings, not 65"),
    ],
    ids=lambda value: str(value)[:20],
)
def test_a_range_names_field_limit_and_value(name: str, value: object, code: str, limit: str) -> None:
    param, given_code, message = refused({name: value})
    assert (param, given_code) == (name, code)
    assert message.startswith(f"'{name}'")
    assert limit in message


def test_an_endless_integer_is_not_repeated() -> None:
    param, code, message = refused({"seed": 10**6000})
    assert (param, code) == ("seed", "integer_above_max_value")
    assert message == "'seed' must be at most 9223372036854775807, not an integer of 19932 bits."


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("seed", 0),
        ("seed", -(2**63)),
        ("seed", 2**63 - 1),
        ("max_tokens", 0),
        ("logprobs", 0),
        ("temperature", 0),
        ("temperature", 2),
        ("top_p", 0),
        ("best_of", 20),
        ("n", 128),
        ("top_k", -1),
        ("frequency_penalty", -2),
    ],
    ids=str,
)
def test_the_ends_of_a_range_belong_to_it(name: str, value: object) -> None:
    assert values_of(parse_body({name: value}, strict=True))[name] == value


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("a", ("a",)),
        ("", ("",)),
        ([], ("",)),
        (["a", ""], ("a", "")),
        ([1, 2], ((1, 2),)),
        ([[1], []], ((1,), ())),
        ([[]], ((),)),
        ([-1], ((-1,),)),
    ],
    ids=str,
)
def test_every_shape_of_prompt_is_a_batch(given: object, meant: tuple[object, ...]) -> None:
    assert parse_body({"prompt": given}, strict=True).prompt == meant


@pytest.mark.parametrize(
    "value",
    [1, True, {}, ["a", 1], [1, True], [1.0], [None], ["a", None], [1, [1]], [["a"]], [[1, True]], [[[1]]], [[None]]],
    ids=str,
)
def test_a_mixed_prompt_is_refused(value: object) -> None:
    assert refused({"prompt": value})[:2] == ("prompt", "invalid_type")


@pytest.mark.parametrize(
    ("given", "meant"),
    [("a", ("a",)), ("", ()), ([], ()), (["", "b", ""], ("b",)), ([str(i) for i in range(64)], None)],
    ids=lambda value: str(value)[:20],
)
def test_empty_stops_are_ignored(given: object, meant: tuple[str, ...] | None) -> None:
    stops = parse_body({"stop": given}, strict=False).stop
    assert stops == meant if meant is not None else len(stops) == 64


@pytest.mark.parametrize("value", [1, {}, [1], ["a", None], [["a"]]], ids=str)
def test_a_stop_is_text(value: object) -> None:
    assert refused({"stop": value})[:2] == ("stop", "invalid_type")


def test_logit_bias_takes_whole_and_decimal_numbers() -> None:
    assert parse_body({"logit_bias": {"0": 1, "50256": -99.5}}, strict=True).sampling.logit_bias == (
        (0, 1.0),
        (50256, -99.5),
    )


@pytest.mark.parametrize(
    "key", ["", "a", "-1", "+1", " 1", "1 ", "1_0", "01", "1.0", "\uff11", "\u0663", "9" * 5000, "\ud800"], ids=ascii
)
def test_a_logit_bias_key_is_a_plain_decimal_id(key: str) -> None:
    assert refused({"logit_bias": {key: 1}})[:2] == ("logit_bias", "invalid_value")


@pytest.mark.parametrize("value", [True, "1", [1], float("nan")], ids=str)
def test_a_logit_bias_value_is_a_number(value: object) -> None:
    assert refused({"logit_bias": {"1": value}})[:2] == ("logit_bias", "invalid_type")


@pytest.mark.parametrize("name", ["model", "prompt", "stop", "suffix", "user"])
def test_half_a_surrogate_pair_is_not_text(name: str) -> None:
    param, code, message = refused({name: "ab\udc00"})
    assert (param, code) == (name, "invalid_value")
    assert "U+DC00 at character 2" in message


@pytest.mark.parametrize("options", [{}, {"include_usage": True}], ids=str)
def test_stream_options_need_stream(options: dict[str, object]) -> None:
    assert refused({"stream_options": options})[:2] == ("stream_options", None)
    assert parse_body({"stream": True, "stream_options": options}, strict=True).stream_options is not None


def test_stream_options_are_checked_by_their_own_names() -> None:
    assert refused({"stream": True, "stream_options": {"include_usage": 1}})[0] == "stream_options.include_usage"
    assert refused({"stream": True, "stream_options": []})[0] == "stream_options"


@pytest.mark.parametrize("name", ["repetition_penalty", "repeat_penalty", "rep_pen"])
def test_a_repetition_penalty_goes_by_several_names(name: str) -> None:
    assert parse_body({name: 1.5}, strict=True).sampling.repetition_penalty == 1.5
    assert refused({name: "x"})[:2] == (name, "invalid_type")


def test_unknown_fields_are_ignored_unless_strict() -> None:
    assert parse_body({"keep_alive": 5}, strict=False) == parse_body({}, strict=False)
    assert refused({"keep_alive": 5}, strict=True)[:2] == ("keep_alive", "unknown_parameter")
    assert refused({"\ud800": 5}, strict=True)[:2] == ("\\ud800", "unknown_parameter")


def test_strict_refuses_unknown_stream_options() -> None:
    fields = {"stream": True, "stream_options": {"x": 1}}
    assert parse_body(fields, strict=False).stream_options is not None
    assert refused(fields, strict=True)[:2] == ("stream_options.x", "unknown_parameter")


@pytest.mark.parametrize(
    ("name", "value", "code"),
    [("stop", list("abcde"), "array_above_max_length"), ("logprobs", 6, "integer_above_max_value")],
    ids=["stop", "logprobs"],
)
def test_documented_limits_hold_only_if_strict(name: str, value: object, code: str) -> None:
    assert values_of(parse_body({name: value}, strict=False))[name] is not None
    assert refused({name: value}, strict=True)[:2] == (name, code)


def test_the_first_wrong_field_in_the_reference_order_is_named() -> None:
    assert refused({"temperature": 9, "n": 0, "model": 1})[0] == "model"


def test_the_schema_stands_alone_and_lets_every_field_be_null() -> None:
    schema = body_schema()
    assert list(schema["properties"]) == [field.name for field in FIELDS]
    assert "$ref" not in json.dumps(schema)
    for name, rules in schema["properties"].items():
        assert {"type": "null"} in rules["anyOf"], name
        assert rules["description"], name
    assert schema["properties"]["n"]["anyOf"][0] == {"type": "integer", "minimum": 1, "maximum": 128}
    assert schema["properties"]["prompt"]["default"] is None
