import pytest

from afterword.completions.parse import parse_body
from afterword.completions.unsupported import REPETITION_MODIFIERS, UNSUPPORTED
from afterword.errors import InvalidRequest


def refused(**fields: object) -> str | None:
    """The field that is refused as unsupported, None if the body is taken."""
    try:
        parse_body(fields, strict=False)
    except InvalidRequest as error:
        return error.param if error.code == "unsupported_parameter" else f"wrong code {error.code}"
    return None


def test_the_message_names_the_field_and_what_it_may_be() -> None:
    with pytest.raises(InvalidRequest, match=r"'tfs' is not supported here .* or set it to null, 1\.$"):
        parse_body({"tfs": 0.5}, strict=False)
    with pytest.raises(InvalidRequest, match=r'set it to null, {"type": "text"}\.$'):
        parse_body({"response_format": {"type": "json_object"}}, strict=False)


@pytest.mark.parametrize("name", UNSUPPORTED)
def test_an_unsupported_field_is_refused_by_name(name: str) -> None:
    assert refused(**{name: "surely not neutral"}) == name


@pytest.mark.parametrize("name", UNSUPPORTED)
@pytest.mark.parametrize("value", [None, "", [], {}], ids=str)
def test_an_unsupported_field_may_be_empty(name: str, value: object) -> None:
    assert refused(**{name: value}) is None


@pytest.mark.parametrize(
    ("name", "neutral", "other"),
    [
        ("response_format", {"type": "text"}, {"type": "json_object"}),
        ("use_beam_search", False, True),
        ("early_stopping", False, True),
        ("length_penalty", 1.0, 0.8),
        ("mirostat", 0, 2),
        ("mirostat_mode", 0, 1),
        ("typical_p", 1.0, 0.9),
        ("tfs", 1, 0.95),
        ("top_a", 0.0, 0.2),
        ("xtc_probability", 0, 0.5),
        ("dry_multiplier", 0.0, 0.8),
        ("dynatemp_range", 0, 0.5),
        ("smoothing_factor", 0, 0.2),
        ("top_n_sigma", -1, 1.5),
        ("no_repeat_ngram_size", 0, 3),
        ("penalty_alpha", 0, 0.6),
        ("guidance_scale", 1.0, 1.5),
        ("negative_prompt", "", "bad"),
        ("do_sample", True, False),
        ("guided_choice", [], ["yes", "no"]),
        ("messages", [], [{"role": "user", "content": "hi"}]),
    ],
)
def test_neutral_values_are_taken_and_others_refused(name: str, neutral: object, other: object) -> None:
    assert refused(**{name: neutral}) is None
    assert refused(**{name: other}) == name


@pytest.mark.parametrize("name", ["dry_base", "mirostat_tau", "xtc_threshold", "smoothing_curve", "dynatemp_exponent"])
def test_companions_of_a_refused_master_are_ignored(name: str) -> None:
    assert refused(**{name: 1.75}) is None


@pytest.mark.parametrize("name", REPETITION_MODIFIERS)
def test_companions_of_the_repetition_penalty_are_refused_only_beside_one(name: str) -> None:
    assert refused(**{name: 512}) is None
    assert refused(**{name: 512, "repeat_penalty": 1.0}) is None
    assert refused(**{name: 512, "repeat_penalty": 1.1}) == name
    assert refused(**{name: REPETITION_MODIFIERS[name][0], "repeat_penalty": 1.1}) is None
