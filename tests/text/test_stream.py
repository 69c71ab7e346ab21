from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from afterword.text.stops import Stops
from afterword.text.stream import TextStream, Visible


def stream(*stops: str, offset: int = 0, pending: bytes = b"", include_stop: bool = False) -> TextStream[str]:
    return TextStream(Stops(stops, include_stop=include_stop), offset=offset, pending=pending)


def shown(text: str, *tokens: str) -> Visible[str]:
    return Visible(text, tokens, stopped=False)


def stopped(text: str, *tokens: str) -> Visible[str]:
    return Visible(text, tokens, stopped=True)


def test_offsets_count_characters_from_the_base() -> None:
    text = stream(offset=5)
    offsets = []
    for piece in (b"ab", b"\xe9\x80", b"\x82", b"", b"c"):
        offsets.append(text.offset)
        text.push(piece, "t")
    assert offsets == [5, 7, 7, 8, 8]
    assert text.offset == 9


def test_both_halves_of_a_character_come_with_it() -> None:
    text = stream()
    assert text.push(b"a\xe9\x80", "first") == shown("a")
    assert text.push(b"\x82b", "second") == shown("\u9002b", "first", "second")


def test_character_begun_in_the_prompt_appears_here() -> None:
    text = stream(offset=3, pending=b"\xe2\x82")
    assert text.offset == 3
    assert text.push(b"\xac", "rest") == shown("€", "rest")
    assert text.offset == 4


def test_token_waits_for_its_held_character() -> None:
    text = stream("END")
    assert text.push(b"aE", "1") == shown("a")
    assert text.push(b"N", "2") == shown("")
    assert text.push(b"x", "3") == shown("ENx", "1", "2", "3")


def test_token_without_text_waits_only_for_what_is_before_it() -> None:
    text = stream("END")
    assert text.push(b"", "0") == shown("", "0")
    assert text.push(b"a", "1") == shown("a", "1")
    assert text.push(b"", "2") == shown("", "2")
    assert text.push(b"E", "3") == shown("")
    assert text.push(b"", "4") == shown("")
    assert text.push(b"x", "5") == shown("Ex", "3", "4", "5")


def test_tokens_that_start_behind_the_cut_are_not_listed() -> None:
    text = stream("END")
    assert text.push(b"a", "1") == shown("a", "1")
    assert text.push(b"bE", "straddles") == shown("b")
    assert text.push(b"N", "2") == shown("")
    assert text.push(b"Dc", "3") == stopped("", "straddles")


def test_token_that_starts_at_the_cut_is_not_listed() -> None:
    assert stream("a").push(b"ab", "1") == stopped("")


def test_included_stop_lists_its_tokens() -> None:
    text = stream("END", include_stop=True)
    assert text.push(b"aE", "1") == shown("a")
    assert text.push(b"ND", "2") == stopped("END", "1", "2")


def test_flush_shows_what_was_held_and_lists_every_token() -> None:
    text = stream("END")
    assert text.push(b"aEN", "1") == shown("a")
    assert text.push(b"\xe2\x82", "2") == shown("")
    assert text.flush() == shown("EN", "1", "2")
    assert text.n_visible == text.offset == 3


def test_no_token_is_listed_unless_given() -> None:
    assert stream().push(b"a") == shown("a")


PIECES = st.lists(
    st.sampled_from([b"a", b"b", b"ab", b"", b"\xe2", b"\x82", b"\xac", b"\xe2\x82", b"ba\xe2"]), max_size=9
)
STOPS = st.lists(st.text("ab€", min_size=1, max_size=3), max_size=2)


def fold(pieces: Sequence[bytes], stops: Sequence[str]) -> tuple[str, list[int], list[int], bool]:
    """Text, listed tokens (by number), the offset of every pushed token, and whether a stop was found."""
    text: TextStream[int] = TextStream(Stops(stops))
    whole = ""
    tokens: list[int] = []
    offsets: list[int] = []
    for number, piece in enumerate(pieces):
        offsets.append(text.offset)
        visible = text.push(piece, number)
        whole += visible.text
        tokens += visible.tokens
        if visible.stopped:
            return whole, tokens, offsets, True
    visible = text.flush()
    return whole + visible.text, [*tokens, *visible.tokens], offsets, False


@given(PIECES, STOPS)
def test_listed_tokens_are_those_that_start_before_the_end(pieces: list[bytes], stops: list[str]) -> None:
    whole, tokens, offsets, found = fold(pieces, stops)
    assert tokens == list(range(len(tokens)))
    if not found:
        assert len(tokens) == len(pieces)
        return
    # Tokens without text at the very cut may already have been listed before the stop began.
    assert all(offset <= len(whole) for offset in offsets[: len(tokens)])
    assert all(offset >= len(whole) for offset in offsets[len(tokens) :])


@given(PIECES, STOPS)
def test_text_does_not_depend_on_the_cuts(pieces: list[bytes], stops: list[str]) -> None:
    by_byte = [bytes([byte]) for byte in b"".join(pieces)]
    assert fold(pieces, stops)[0] == fold(by_byte, stops)[0]


@pytest.mark.parametrize("n_pieces", [1, 2, 50])
def test_offset_is_the_length_of_all_text_so_far(n_pieces: int) -> None:
    text = stream(offset=2)
    for _ in range(n_pieces):
        text.push("é".encode())
    assert text.offset == text.n_visible == 2 + n_pieces
