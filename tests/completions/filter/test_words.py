import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.completions.filter.watching import held, listed, pieces_of, sent

from afterword.completions.filter.folding import Folder, fold
from afterword.completions.filter.words import symbols_of

FLAGGED = [
    pytest.param("bad", "so bad it is", "so ", id="whole word"),
    pytest.param("bad", "bad", "", id="the whole text"),
    pytest.param("bad", "not bad", "not ", id="at the end"),
    pytest.param("bad", "so BaD!", "so ", id="case"),
    pytest.param("BAD", "so bad!", "so ", id="case of the entry"),
    pytest.param("bad", "too-bad.", "too-", id="hyphen"),
    pytest.param("bad", "_bad_", "_", id="emphasis"),
    pytest.param("bad", "bad's", "", id="apostrophe"),
    pytest.param("bad", "so \uff42\uff41\uff44\uff01", "so ", id="full width"),
    pytest.param("bad", "so \U0001d41b\U0001d41a\U0001d41d x", "so ", id="mathematical letters"),
    pytest.param("bad", "so b\u200ba\u00add\u2060 x", "so ", id="invisible characters"),
    pytest.param("fish", "a ﬁsh", "a ", id="ligature"),
    pytest.param("café", "ein cafe\u0301.", "ein ", id="combining mark"),
    pytest.param("cafe\u0301", "un CAFÉ.", "un ", id="combining mark in the entry"),
    pytest.param("e\u0323\u0302x", "ê\u0323x", "", id="marks in another order"),
    pytest.param("straße", "STRASSE", "", id="sharp s"),
    pytest.param("two words", "in two\u00a0 \n words.", "in ", id="white space"),
    pytest.param("坏", "很坏的", "很", id="script without spaces"),
    pytest.param("坏人", "很坏人的", "很", id="word of two letters in such a script"),
    pytest.param("$$$", "for a$$$b", "for a", id="signs are not bounded by letters"),
    pytest.param("f**k", "oh f**k you", "oh ", id="letters and signs"),
    pytest.param("bad", "é\u0301 bad", "é\u0301 ", id="offsets behind marks"),
    pytest.param("bad", "ﬁﬁ 🙂 bad", "ﬁﬁ 🙂 ", id="offsets behind characters that fold to several"),
]

PASSED = [
    pytest.param("bad", "badge", id="beginning of a word"),
    pytest.param("bad", "a forbad b", id="end of a word"),
    pytest.param("bad", "x bad2 y", id="digit"),
    pytest.param("ano", "año", id="accent"),
    pytest.param("ano", "an\u0303o", id="combining accent"),
    pytest.param("bad", "bad\u0301", id="mark on the last letter"),
    pytest.param("bad", "ba d", id="space within"),
    pytest.param("two words", "twowords", id="no space"),
    pytest.param("bad", "", id="nothing"),
]


@pytest.mark.parametrize(("word", "text", "expected"), FLAGGED)
async def test_text_ends_where_a_word_starts(word: str, text: str, expected: str) -> None:
    content_filter = listed("# comment", word)
    assert await sent(content_filter, [text]) == (expected, "line 2")
    assert await sent(content_filter, text) == (expected, "line 2")


@pytest.mark.parametrize(("word", "text"), PASSED)
async def test_other_text_leaves_whole(word: str, text: str) -> None:
    content_filter = listed(word)
    assert await sent(content_filter, [text]) == (text, None)
    assert await sent(content_filter, text) == (text, None)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("nothing of it ", "", id="nothing begun"),
        pytest.param("so ba", "ba", id="begun"),
        pytest.param("so bad", "bad", id="whole word that may go on"),
        pytest.param("so badg", "", id="word that went on"),
        pytest.param("so ca", "ca", id="other entry"),
        pytest.param("so very ", "very ", id="phrase"),
        pytest.param("so very  \n", "very  \n", id="phrase with white space"),
        pytest.param("so b\u200b", "b\u200b", id="invisible character"),
        pytest.param("xb", "", id="inside a word"),
    ],
)
async def test_exactly_what_may_become_a_match_is_held(text: str, expected: str) -> None:
    assert await held(listed("bad", "café", "very bad indeed"), text) == expected


async def test_the_earliest_match_ends_the_text_even_if_a_later_one_is_complete_first() -> None:
    content_filter = listed("bad", "very bad indeed")
    assert await sent(content_filter, ["so very bad ", "indeed."]) == ("so ", "line 2")
    assert await sent(content_filter, ["so very bad ", "thing"]) == ("so very ", "line 1")


async def test_of_words_that_start_together_one_is_enough() -> None:
    assert await sent(listed("bad", "bad indeed"), ["so bad "]) == ("so ", "line 1")


@pytest.mark.parametrize(
    ("word", "complaint"),
    [
        pytest.param("\u200b", "has no visible character", id="invisible"),
        pytest.param("\u0301a", "begins with a combining mark", id="mark"),
    ],
)
def test_words_that_nothing_can_match_are_refused(word: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        symbols_of(word)


PARTS = [
    "a",
    "b",
    "A",
    "é",
    "e\u0301",
    "e",
    "\u0301",
    "\u0323",
    "ﬁ",
    "f",
    "i",
    "\uff41",
    "\u200d",
    " ",
    "\n",
    "_",
    "$",
    "坏",
    "ß",
]
TEXTS = st.lists(st.sampled_from(PARTS), max_size=14).map("".join)


def is_word(text: str) -> bool:
    try:
        symbols_of(text)
    except ValueError:
        return False
    return text == text.strip() and "\n" not in text


WORDS = st.lists(st.sampled_from(PARTS), min_size=1, max_size=4).map("".join).filter(is_word)


def earliest(words: list[str], text: str) -> int | None:
    """Where the earliest match starts, by comparing the symbols in every place."""
    folder = Folder()
    symbols = [*folder.push(text), *folder.flush()]
    whole = "".join(symbol for symbol, _ in symbols)
    places = [whole.find(fold(word)) for word in words]
    starts = [symbols[place][1] for place in places if place >= 0]
    return min(starts, default=None)


@given(words=st.lists(WORDS, min_size=1, max_size=4), pieces=pieces_of(TEXTS))
@example(words=["a$"], pieces=["a", "$", "\u0301"])
@example(words=["ß"], pieces=["s", "s"])
@example(words=["e\u0323\u0301"], pieces=["é", "\u0323"])
async def test_however_the_text_is_cut_it_ends_at_the_earliest_match(words: list[str], pieces: list[str]) -> None:
    text = "".join(pieces)
    start = earliest(words, text)
    leaves, rule = await sent(listed(*words), pieces)
    assert leaves == text[:start]
    assert (rule is None) == (start is None)


@given(pieces=pieces_of(TEXTS))
def test_symbols_do_not_depend_on_the_pieces(pieces: list[str]) -> None:
    folder = Folder()
    symbols = [symbol for piece in pieces for symbol, _ in folder.push(piece)]
    symbols += [symbol for symbol, _ in folder.flush()]
    assert "".join(symbols) == fold("".join(pieces))
