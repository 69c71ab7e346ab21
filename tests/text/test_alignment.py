import pytest
from hypothesis import given
from hypothesis import strategies as st

from afterword.text.alignment import align


@pytest.mark.parametrize(
    ("pieces", "text", "starts"),
    [
        pytest.param([" hello", " the"], "Hello the", [0, 5], id="token-01 lower case and a space in front"),
        pytest.param([" he", "llo", " the"], "Hello   the", [0, 2, 7], id="token-01 spaces that are joined"),
        pytest.param([" a", "<s>", " b", " b"], "a<s>b b", [0, 1, 4, 5], id="token-01 a space behind a control token"),
        pytest.param([" ", "a", "<s>", " ", "b"], "a<s>b", [0, 0, 1, 4, 4], id="token-01 spaces of their own"),
        pytest.param(["<s>", " ", " b"], "<s> b", [0, 3, 3], id="token-01 a space in front of a space"),
        pytest.param([" cafe", " x"], "Café x", [0, 4], id="token-01 accents that are left out"),
        pytest.param([" ᄒ", "ᅡ", "ᆫ", " a"], "한 a", [0, 0, 0, 1], id="token-01 parts of a character"),
        pytest.param([" a", " [UNK]", " b"], "a 日本 b", [0, 1, 4], id="token-01 an unknown word"),
        pytest.param([" fi", "re"], "ﬁre", [0, 1], id="token-01 a ligature"),
        pytest.param(["a", "", "", "é", "b"], "aéb", [0, 1, 1, 1, 2], id="token-01 bytes of a character"),
        pytest.param([" a", " b"], "a", [0, 1], id="token-01 more than was sent"),
        pytest.param([], "a", [], id="token-01 nothing"),
    ],
)
def test_pieces_begin_where_their_text_does(pieces: list[str], text: str, starts: list[int]) -> None:
    assert align(pieces, text) == starts


@given(st.lists(st.text(max_size=4)), st.text())
def test_starts_never_fall_and_stay_in_the_text(pieces: list[str], text: str) -> None:
    starts = align(pieces, text)
    assert len(starts) == len(pieces)
    assert starts == sorted(starts)
    assert all(0 <= start <= len(text) for start in starts)
