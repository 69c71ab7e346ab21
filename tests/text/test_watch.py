import pytest
import regex
from hypothesis import given
from hypothesis import strategies as st
from tests.text.bans import Definition, decoded, fold

from afterword.engine.banned_texts import BannedTexts
from afterword.engine.sampling.banned_patterns import REACH
from afterword.fields.bans import TextBans
from afterword.text.watch import Watch

LETTERS = "abAéß💧 "
PIECES = st.lists(
    st.one_of(
        st.text(LETTERS, max_size=3).map(str.encode),
        st.sampled_from([b"\xc3", b"\xa9", b"\xf0\x9f", b"\x92", b"\xa7", b"\xff", b"b\xc3", b"\xa9a", b""]),
    ),
    max_size=25,
)
TEXTS = st.lists(st.text(LETTERS, min_size=1, max_size=4), max_size=4).map(tuple)
EXPRESSIONS = ("", "a+b", "(?i:ab)|é", ".[bA]", "a[^b]{1,3} ")


@given(PIECES, TEXTS, TEXTS, st.sampled_from(EXPRESSIONS))
def test_tokens_are_taken_back_from_where_a_banned_text_begins(
    pieces: list[bytes], exact: tuple[str, ...], folded: tuple[str, ...], pattern: str
) -> None:
    bans = TextBans(exact, folded, pattern)
    if bans == TextBans():
        return
    watch, definition = Watch(BannedTexts(bans).finders), Definition(bans)
    for piece in pieces:
        n_before = watch.n_held
        n_back = watch.push(piece)
        assert n_back == definition.push(piece)
        assert watch.n_held == len(definition.pieces) - definition.n_let_go <= n_before + 1 - n_back
    text, _ = decoded(definition.pieces)
    assert not any(banned in text for banned in exact)
    assert not any(fold(banned) in fold(text) for banned in folded)
    assert pattern == "" or regex.search(pattern, text) is None


def push(bans: TextBans, *pieces: str | bytes, pending: bytes = b"") -> list[tuple[int, int]]:
    """For each token, how many are taken back and how many are held then."""
    watch = Watch(BannedTexts(bans).finders, pending)
    data = [piece.encode() if isinstance(piece, str) else piece for piece in pieces]
    return [(watch.push(piece), watch.n_held) for piece in data]


def test_tokens_are_held_while_a_banned_text_may_begin_with_them() -> None:
    assert push(TextBans(("bcd",)), "a", "ab", "c", "e", "b") == [(0, 0), (0, 1), (0, 2), (0, 0), (0, 1)]


def test_the_banned_text_that_ends_first_counts_and_of_several_the_longest() -> None:
    assert push(TextBans(("bc", "abcd")), "a", "bcd") == [(0, 1), (1, 1)]
    assert push(TextBans(("bc", "abc")), "a", "b", "c") == [(0, 1), (0, 2), (3, 0)]


def test_what_was_taken_back_may_be_begun_again() -> None:
    assert push(TextBans(("aab",)), "a", "a", "b", "a", "b") == [(0, 1), (0, 2), (3, 0), (0, 1), (0, 0)]


def test_what_was_let_go_stays_and_the_next_token_is_taken_back() -> None:
    assert push(TextBans(("aab",)), "a", "a", "a", "b", "ab") == [(0, 1), (0, 2), (0, 2), (3, 0), (1, 0)]


def test_a_character_begins_in_the_token_that_has_its_first_byte() -> None:
    assert push(TextBans(("é",)), b"x\xc3", b"\xa9") == [(0, 1), (2, 0)]
    assert push(TextBans(("é",)), b"\xa9", b"a", pending=b"\xc3") == [(1, 0), (0, 0)]


@pytest.mark.parametrize(
    ("banned", "text"), [("straße", "STRAẞE"), ("ÉTÉ", "été"), ("σας", "ΣΑΣ"), ("K", "k"), ("İ", "İ")]
)
def test_case_makes_no_difference_where_it_must_not(banned: str, text: str) -> None:
    assert push(TextBans(caseless=(banned,)), text)[0][0] == 1


def test_an_expression_is_found_as_soon_as_it_matches_and_within_its_reach() -> None:
    assert push(TextBans(pattern="fo+.*"), "x", "f", "o", "o") == [(0, 0), (0, 1), (2, 0), (0, 0)]
    assert push(TextBans(pattern="a.*b"), "a" + "x" * (REACH - 2), "b")[1][0] == 2
    assert push(TextBans(pattern="a.*b"), "a" + "x" * (REACH - 1), "b")[1] == (0, 0)
