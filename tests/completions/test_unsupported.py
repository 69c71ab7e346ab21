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
    with pytest.raises(InvalidRequest, match=r"'penalty_alpha' is not supported here .* or set it to null, 0\.$"):
        parse_body({"penalty_alpha": 4}, strict=False)


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
        ("penalty_alpha", 0, 0.6),
        ("structural_tag", {}, {"structures": []}),
        ("messages", [], [{"role": "user", "content": "hi"}]),
    ],
)
def test_neutral_values_are_taken_and_others_refused(name: str, neutral: object, other: object) -> None:
    assert refused(**{name: neutral}) is None
    assert refused(**{name: other}) == name


@pytest.mark.parametrize("name", REPETITION_MODIFIERS)
def test_companions_of_the_repetition_penalty_are_refused_only_beside_one(name: str) -> None:
    assert refused(**{name: 512}) is None
    assert refused(**{name: 512, "repeat_penalty": 1.0}) is None
    assert refused(**{name: 512, "repeat_penalty": 1.1}) == name
    assert refused(**{name: REPETITION_MODIFIERS[name][0], "repeat_penalty": 1.1}) is None
