import pytest
from hypothesis import given
from hypothesis import strategies as st

from afterword.text.utf8 import Utf8Decoder

# Bytes that start, continue and break characters of every length, surrogates among them.
TRICKY = st.lists(
    st.sampled_from(b"a\x80\xa0\xbf\xc0\xc3\xe0\xe2\x82\xac\xed\xf0\x9f\x98\x90\xf4\xf5\xff"), max_size=12
)


def incomplete_tail(data: bytes) -> bytes:
    """The longest end of `data` that some further bytes would make one character, found by trying them."""
    continuations = [bytes([first]) + b"\x80" * more for first in range(0x80, 0xC0) for more in range(3)]
    for length in (3, 2, 1):
        tail = data[-length:]
        if len(tail) == length and any(is_one_character(tail + more) for more in continuations):
            return tail
    return b""


def is_one_character(data: bytes) -> bool:
    try:
        return len(data.decode("utf-8")) == 1
    except UnicodeDecodeError:
        return False


@pytest.mark.parametrize(
    ("pieces", "texts", "pending"),
    [
        pytest.param([b"ab", b"c"], ["ab", "c"], b"", id="ascii"),
        pytest.param([b"\xe2", b"\x82", b"\xac"], ["", "", "€"], b"", id="split-character"),
        pytest.param([b"a\xf0\x9f", b"\x98\x80b"], ["a", "😀b"], b"", id="split-between-text"),
        pytest.param([b"\xe2\x82", b"a"], ["", "\ufffda"], b"", id="broken-off-character"),
        pytest.param([b"\xff", b"\x80a"], ["\ufffd", "\ufffda"], b"", id="invalid-bytes"),
        pytest.param([b"\xed\xa0", b"\x80"], ["\ufffd\ufffd", "\ufffd"], b"", id="surrogate-is-invalid-at-once"),
        pytest.param([b"a\xf0\x9f\x98"], ["a"], b"\xf0\x9f\x98", id="incomplete-at-the-end"),
        pytest.param([b"", b"a", b""], ["", "a", ""], b"", id="empty-pieces"),
    ],
)
def test_pieces_give_whole_characters(pieces: list[bytes], texts: list[str], pending: bytes) -> None:
    decoder = Utf8Decoder()
    assert [decoder.push(piece) for piece in pieces] == texts
    assert decoder.pending == pending
    assert decoder.flush() == pending
    assert decoder.pending == b""


def test_bytes_of_the_prompt_are_completed_here() -> None:
    decoder = Utf8Decoder(b"\xe2\x82")
    assert decoder.push(b"\xac!") == "€!"


@given(TRICKY, st.data())
def test_text_does_not_depend_on_the_cuts(values: list[int], data: st.DataObject) -> None:
    whole = bytes(values)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=5)))
    decoder = Utf8Decoder()
    text = "".join(decoder.push(whole[a:b]) for a, b in zip([0, *cuts], [*cuts, len(whole)], strict=True))
    tail = incomplete_tail(whole)
    assert decoder.flush() == tail
    assert text == whole[: len(whole) - len(tail)].decode("utf-8", "replace")
