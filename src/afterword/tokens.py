"""The tokenizer protocol: ids, bytes and spelled text.

Knows no model library. `ByteTokenizer` is the tokenizer of the echo engine and of the tests: complete, and small
enough to follow by hand.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from typing_extensions import override


@dataclass(frozen=True, slots=True)
class InfillTokens:
    """Ids of the control tokens of a fill-in-the-middle model (docs/rules.md#suffix)."""

    prefix: int
    suffix: int
    middle: int


class Tokenizer(Protocol):
    """Text to ids and back. All methods are pure and may be called from any thread."""

    n_vocab: int
    bos_id: int | None
    eos_id: int | None
    pad_id: int | None
    add_bos: bool
    """Whether the model's metadata asks for BOS in front of string prompts."""
    infill: InfillTokens | None
    end_ids: frozenset[int]
    """Every token that ends generation (EOS, end of turn, ...)."""
    separator_id: int
    """Replaces a missing prompt: `<|endoftext|>`, else BOS, else EOS (docs/rules.md#empty-prompt)."""
    chat_template: str | None
    name: str
    """Name of the tokenizer's class or pre-tokenizer, for `/tokenizer_info`."""

    def encode(self, text: str, *, add_bos: bool, parse_special: bool) -> list[int]:
        """Ids of `text`, with BOS in front if `add_bos`; control-token text becomes ids if `parse_special`."""
        ...

    def piece(self, token: int) -> bytes:
        """The bytes of a token; the spelled name of a control token."""
        ...

    def is_control(self, token: int) -> bool:
        """Whether the token has no text of its own in a completion (docs/rules.md#control-tokens)."""
        ...

    def spell(self, token: int) -> str:
        r"""The token as log-probabilities show it: its text, or `bytes:\xNN...` (docs/rules.md#token-spelling)."""
        ...


SEPARATOR = "<|endoftext|>"
"""How a vocabulary spells its document separator, if it has one."""


def choose_separator(document: int | None, bos: int | None, eos: int | None) -> int:
    """The document separator, else BOS, else EOS, else token 0: it replaces a missing prompt.

    docs/rules.md#empty-prompt
    """
    for token in (document, bos, eos):
        if token is not None:
            return token
    return 0


def spell_bytes(piece: bytes) -> str:
    r"""Text of one token by itself: UTF-8 if it is whole, else `bytes:\xNN\xNN` (docs/rules.md#token-spelling)."""
    try:
        return piece.decode("utf-8")
    except UnicodeDecodeError:
        return "bytes:" + "".join(f"\\x{byte:02x}" for byte in piece)


class ByteTokenizer(Tokenizer):
    """One token a byte, then `<|endoftext|>` (256) and `<|control|>` (257), a control token that ends nothing."""

    END = 256
    CONTROL = 257

    def __init__(self) -> None:
        self.n_vocab = 258
        self.bos_id: int | None = None
        self.eos_id: int | None = self.END
        self.pad_id: int | None = None
        self.add_bos = False
        self.infill: InfillTokens | None = None
        self.end_ids = frozenset({self.END})
        self.separator_id = self.END
        self.chat_template: str | None = None
        self.name = "bytes"
        self._special = {"<|endoftext|>": self.END, "<|control|>": self.CONTROL}

    @override
    def encode(self, text: str, *, add_bos: bool, parse_special: bool) -> list[int]:
        """Bytes of `text`; `add_bos` changes nothing because there is no BOS."""
        if not parse_special:
            return list(text.encode("utf-8"))
        for spelled, token in self._special.items():
            before, found, after = text.partition(spelled)
            if found:
                return [
                    *self.encode(before, add_bos=False, parse_special=True),
                    token,
                    *self.encode(after, add_bos=False, parse_special=True),
                ]
        return list(text.encode("utf-8"))

    @override
    def piece(self, token: int) -> bytes:
        """The byte itself, or the spelled name of a control token."""
        if token < 256:
            return bytes([token])
        return (b"<|endoftext|>", b"<|control|>")[token - 256]

    @override
    def is_control(self, token: int) -> bool:
        """True for 256 and 257."""
        return token >= 256

    @override
    def spell(self, token: int) -> str:
        return spell_bytes(self.piece(token))


WITHIN = ("☺", "\n")
"""Texts that hardly any vocabulary joins with what follows."""


def encode_within(tokenizer: Tokenizer, text: str) -> list[int]:
    """Ids of a text that goes on within another: without the space that some vocabularies put in front of a text.

    Behind another text, whose ids are left out, none is added.
    """
    ids = tokenizer.encode(text, add_bos=False, parse_special=True)
    if _bytes_of(tokenizer, ids) != b" " + text.encode():
        return ids
    for before in WITHIN:
        longer = tokenizer.encode(before + text, add_bos=False, parse_special=True)
        # At most the space and every byte of it.
        for n in range(1, len(before.encode()) + 2):
            if _bytes_of(tokenizer, longer[:n]) == b" " + before.encode():
                return longer[n:]
    return ids


def _bytes_of(tokenizer: Tokenizer, ids: Sequence[int]) -> bytes:
    return b"".join(tokenizer.piece(token) for token in ids)


def visible_piece(tokenizer: Tokenizer, token: int, *, skip_special_tokens: bool) -> bytes:
    """The bytes a token adds to a text: none for a control token unless it is shown (docs/rules.md#control-tokens)."""
    if skip_special_tokens and tokenizer.is_control(token):
        return b""
    return tokenizer.piece(token)


def visible_bytes(tokenizer: Tokenizer, tokens: Sequence[int], *, skip_special_tokens: bool) -> bytes:
    """The bytes that several tokens add to a text."""
    return b"".join(visible_piece(tokenizer, t, skip_special_tokens=skip_special_tokens) for t in tokens)
