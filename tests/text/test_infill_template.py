import pytest

from afterword.text.infill_template import InfillTemplate, parse_template


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("<P>{prefix}<S>{suffix}<M>", ("<P>", "prefix", "<S>", "suffix", "<M>")),
        ("{suffix}{prefix}", ("", "suffix", "", "prefix", "")),
    ],
)
def test_a_template_is_cut_at_its_places_in_their_order(text: str, pieces: tuple[str, ...]) -> None:
    assert parse_template(text) == InfillTemplate(text, *pieces)


@pytest.mark.parametrize("text", ["", "{prefix}", "{suffix} {suffix}", "{prefix}{suffix}{prefix}", "{Prefix}{suffix}"])
def test_a_template_needs_each_place_once(text: str) -> None:
    with pytest.raises(ValueError, match=r"^$"):
        parse_template(text)
