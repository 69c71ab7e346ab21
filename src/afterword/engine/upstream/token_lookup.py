r"""Finds the token of a known vocabulary that an upstream has listed.

An id is taken as it is, `token_id:N` too; a text, or `bytes:\xNN...`, is looked up. If several tokens are spelled alike
it is the lowest id; servers that send ids avoid that.
"""

import re

from afterword.engine.upstream.reply import Entry, MalformedReply, Named
from afterword.tokens import Tokenizer

_BY_ID = re.compile(r"token_id:([0-9]+)")


class TokenLookup:
    """Ids by spelling and by bytes. Built once for each model; used from the event loop."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._by_spelling: dict[str, int] = {}
        self._by_piece: dict[bytes, int] = {}
        for token in range(tokenizer.n_vocab):
            self._by_spelling.setdefault(tokenizer.spell(token), token)
            self._by_piece.setdefault(tokenizer.piece(token), token)

    def id_of(self, token: Named) -> int:
        """Its id. Raises `MalformedReply` if it is not in the vocabulary: the upstream then has another tokenizer."""
        found = token.id
        if found is None:
            by_id = _BY_ID.fullmatch(token.spelled)
            found = int(by_id[1]) if by_id is not None else self._by_spelling.get(token.spelled)
        if found is None or found >= self._tokenizer.n_vocab:
            raise MalformedReply(f"a listed token (id {token.id}) is not in the configured tokenizer's vocabulary")
        return found

    def may_mean(self, token: Named, expected: int) -> bool:
        """Whether the listed token can be `expected`."""
        if token.id is None and _BY_ID.fullmatch(token.spelled) is None:
            return token.spelled == self._tokenizer.spell(expected)
        return self.id_of(token) == expected

    def likeliest(self, entry: Entry, k: int) -> tuple[tuple[int, float], ...]:
        """The k likeliest of the tokens listed with `entry`, likeliest first, ties by id."""
        listed = sorted(((self.id_of(token), value) for token, value in entry.top), key=likeliest_first)
        return tuple(listed[:k])

    def ids_of(self, piece: bytes) -> list[int]:
        """Tokens whose bytes make up `piece`, each the longest that matches; bytes without a token are left out."""
        ids: list[int] = []
        start = 0
        while start < len(piece):
            end = next((end for end in range(len(piece), start, -1) if piece[start:end] in self._by_piece), None)
            if end is None:
                start += 1
                continue
            ids.append(self._by_piece[piece[start:end]])
            start = end
        return ids


def likeliest_first(entry: tuple[int, float]) -> tuple[float, int]:
    """Sorts (id, log-probability) by probability, ties by id."""
    return (-entry[1], entry[0])
