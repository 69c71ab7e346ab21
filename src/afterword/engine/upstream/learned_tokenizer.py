r"""A tokenizer for upstreams whose vocabulary is not known: bytes, and every token that an answer has listed so far.

Ids are made up here and mean nothing to the upstream, which is sent text. So fields that contain ids are refused.
"""

import re
from collections.abc import Sequence

from typing_extensions import override

from afterword.engine.upstream.reply import Named
from afterword.tokens import InfillTokens, Tokenizer, spell_bytes

N_BYTES = 256
MAX_PIECES = 2**20
"""Pieces that are kept: several times the largest vocabulary. The limit is for upstreams that make tokens up."""

_AS_BYTES = re.compile(r"bytes:(?:\\x[0-9a-fA-F]{2})+")


class LearnedTokenizer(Tokenizer):
    """An `afterword.tokens.Tokenizer` that grows. Learns on the event loop; may be read from any thread."""

    SEPARATOR = N_BYTES
    """Stands for the empty prompt and, in place of the upstream's own, for its end-of-text token."""
    UNKNOWN = N_BYTES + 1
    """Stands for every token beyond the cap."""

    def __init__(self, max_pieces: int = MAX_PIECES) -> None:
        self.n_vocab = N_BYTES + 2 + max_pieces
        self.bos_id: int | None = None
        self.eos_id: int | None = self.SEPARATOR
        self.pad_id: int | None = None
        self.add_bos = False
        self.infill: InfillTokens | None = None
        self.end_ids = frozenset({self.SEPARATOR})
        self.separator_id = self.SEPARATOR
        self.chat_template: str | None = None
        self.name = "learned"
        self._pieces: list[bytes] = [*(bytes([byte]) for byte in range(N_BYTES)), b"", "\ufffd".encode()]
        self._ids: dict[bytes, int] = {piece: token for token, piece in enumerate(self._pieces) if token < N_BYTES}

    def learn(self, token: Named) -> int:
        """The id of a listed token, a new one if it was not seen before."""
        piece = piece_of(token)
        if piece == b"":
            return self.SEPARATOR
        known = self._ids.get(piece)
        if known is not None:
            return known
        if len(self._pieces) == self.n_vocab:
            return self.UNKNOWN
        self._pieces.append(piece)
        self._ids[piece] = len(self._pieces) - 1
        return len(self._pieces) - 1

    @override
    def encode(self, text: str, *, add_bos: bool, parse_special: bool) -> list[int]:
        """The bytes of `text`; there is no BOS and no control token that could be parsed."""
        return list(text.encode("utf-8"))

    @override
    def piece(self, token: int) -> bytes:
        return self._pieces[token]

    @override
    def is_control(self, token: int) -> bool:
        return token == self.SEPARATOR

    @override
    def spell(self, token: int) -> str:
        return spell_bytes(self._pieces[token])


def piece_of(token: Named) -> bytes:
    """The bytes of a token as the upstream lists it."""
    if token.piece is not None:
        return token.piece
    if _AS_BYTES.fullmatch(token.spelled) is not None:
        return bytes.fromhex(token.spelled.removeprefix("bytes:").replace("\\x", ""))
    return token.spelled.encode("utf-8")


def text_of(prompt: Sequence[int]) -> str:
    """The text of a prompt that `LearnedTokenizer.encode` made; the separator is the empty text."""
    return bytes(token for token in prompt if token < N_BYTES).decode("utf-8")
