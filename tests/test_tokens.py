import pytest

from afterword.tokens import ByteTokenizer, spell_bytes, visible_bytes, visible_piece


@pytest.mark.parametrize(
    ("piece", "spelled"),
    [
        pytest.param(b"a", "a", id="ascii"),
        pytest.param("é".encode(), "é", id="whole-character"),
        pytest.param(b"", "", id="empty"),
        pytest.param(b"\xe9\x80", "bytes:\\xe9\\x80", id="part-of-a-character"),
        pytest.param(b"a\xe9", "bytes:\\x61\\xe9", id="character-and-a-part"),
    ],
)
def test_spelling_shows_bytes_only_when_not_whole_utf8(piece: bytes, spelled: str) -> None:
    assert spell_bytes(piece) == spelled


def test_byte_tokenizer_maps_bytes_to_themselves() -> None:
    assert ByteTokenizer().encode("aé", add_bos=True, parse_special=True) == [0x61, 0xC3, 0xA9]


@pytest.mark.parametrize(
    ("parse_special", "ids"),
    [
        pytest.param(True, [97, 256, 98, 257, 256], id="parsed"),
        pytest.param(False, list(b"a<|endoftext|>b<|control|><|endoftext|>"), id="plain"),
    ],
)
def test_control_token_text_is_parsed_only_on_request(parse_special: bool, ids: list[int]) -> None:
    text = "a<|endoftext|>b<|control|><|endoftext|>"
    assert ByteTokenizer().encode(text, add_bos=False, parse_special=parse_special) == ids


def test_every_token_has_its_piece() -> None:
    tokenizer = ByteTokenizer()
    pieces = [tokenizer.piece(token) for token in range(tokenizer.n_vocab)]
    assert pieces == [bytes([byte]) for byte in range(256)] + [b"<|endoftext|>", b"<|control|>"]
    assert [token for token in range(tokenizer.n_vocab) if tokenizer.is_control(token)] == [256, 257]
    assert tokenizer.spell(0xE9) == "bytes:\\xe9"
    assert tokenizer.spell(257) == "<|control|>"


def test_control_tokens_have_no_text_unless_asked_for() -> None:
    tokenizer = ByteTokenizer()
    assert visible_piece(tokenizer, 257, skip_special_tokens=True) == b""
    assert visible_piece(tokenizer, 257, skip_special_tokens=False) == b"<|control|>"
    assert visible_bytes(tokenizer, [97, 257, 98], skip_special_tokens=True) == b"ab"
