r"""The tokenizer that learns what an upstream shows."""

from hypothesis import given
from hypothesis import strategies as st

from afterword.engine.upstream.learned_tokenizer import LearnedTokenizer, text_of
from afterword.engine.upstream.reply import Named


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_a_text_comes_back_from_its_bytes(text: str) -> None:
    assert text_of(LearnedTokenizer().encode(text, add_bos=True, parse_special=True)) == text


def test_the_separator_is_the_empty_text() -> None:
    assert text_of([LearnedTokenizer.SEPARATOR]) == ""


def test_a_token_keeps_its_id_and_its_spelling() -> None:
    tokenizer = LearnedTokenizer()
    first, second = tokenizer.learn(Named(" the")), tokenizer.learn(Named(" cat"))
    assert first != second
    assert tokenizer.learn(Named(" the")) == first
    assert (tokenizer.piece(first), tokenizer.spell(second)) == (b" the", " cat")


def test_bytes_are_learned_as_bytes() -> None:
    tokenizer = LearnedTokenizer()
    token = tokenizer.learn(Named("bytes:\\xe2\\x80"))
    assert (tokenizer.piece(token), tokenizer.spell(token)) == (b"\xe2\x80", "bytes:\\xe2\\x80")
    assert tokenizer.learn(Named("", 5, b"\xe2\x80")) == token
    assert tokenizer.learn(Named("bytes:\\xe2")) == 0xE2
    assert tokenizer.piece(tokenizer.learn(Named("bytes:x"))) == b"bytes:x"


def test_what_has_no_text_is_a_control_token() -> None:
    tokenizer = LearnedTokenizer()
    assert tokenizer.is_control(tokenizer.learn(Named("")))
    assert not tokenizer.is_control(tokenizer.learn(Named("a")))


def test_memory_is_bounded() -> None:
    tokenizer = LearnedTokenizer(max_pieces=2)
    ids = [tokenizer.learn(Named(spelled)) for spelled in ("aa", "bb", "cc", "dd", "aa", "x")]
    assert ids == [258, 259, tokenizer.UNKNOWN, tokenizer.UNKNOWN, 258, ord("x")]
    assert max(ids) < tokenizer.n_vocab
    assert tokenizer.spell(tokenizer.UNKNOWN) == "\ufffd"
