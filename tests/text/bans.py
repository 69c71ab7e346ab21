"""What a text that may have no banned one does by its definition, worked out anew from the beginning for each token."""

from collections.abc import Sequence

import regex

from afterword.fields.bans import TextBans
from afterword.text.utf8 import Utf8Decoder
from afterword.text.watch import caseless


def fold(text: str) -> str:
    return "".join(map(caseless, text))


def found(text: str, bans: TextBans) -> int | None:
    """Where the longest banned text begins that ends where the text does; None: none does. By trying everything."""
    for start in range(len(text)):
        end = text[start:]
        if end in bans.exact or fold(end) in map(fold, bans.caseless):
            return start
        if bans.pattern and regex.fullmatch(bans.pattern, end):
            return start
    return None


def open_from(text: str, bans: TextBans) -> int:
    """Where the earliest banned text may begin that is not complete."""
    for start in range(len(text)):
        end = text[start:]
        if any(banned.startswith(end) for banned in bans.exact):
            return start
        if any(fold(banned).startswith(fold(end)) for banned in bans.caseless):
            return start
        if bans.pattern and regex.fullmatch(bans.pattern, end, partial=True):
            return start
    return len(text)


def decoded(pieces: Sequence[bytes]) -> tuple[str, list[int]]:
    """The whole characters of some pieces, and for each the number of the piece that its first byte is in."""
    decoder, text, places, open_in = Utf8Decoder(), "", list[int](), 0
    for number, piece in enumerate(pieces):
        was_open = decoder.pending != b""
        characters = decoder.push(piece)
        for place in range(len(characters)):
            places.append(open_in if place == 0 and was_open else number)
        text += characters
        if decoder.pending and (characters or not was_open):
            open_in = number
    return text, places


class Definition:
    """The pieces of a text, of which the first `n_let_go` stay."""

    def __init__(self, bans: TextBans, pieces: Sequence[bytes] = (), n_let_go: int = 0) -> None:
        self.bans, self.pieces, self.n_let_go = bans, list(pieces), n_let_go

    def push(self, piece: bytes) -> int:
        """Add a piece. Returns how many of the last are taken back."""
        before, _ = decoded(self.pieces)
        self.pieces.append(piece)
        text, places = decoded(self.pieces)
        for end in range(len(before) + 1, len(text) + 1):
            start = found(text[:end], self.bans)
            if start is not None:
                first = max(places[start], self.n_let_go)
                n_back = len(self.pieces) - first
                del self.pieces[first:]
                return n_back
        start = open_from(text, self.bans)
        if start < len(text) or not self.is_whole():
            self.n_let_go = max(self.n_let_go, self.first_byte_of(start))
        else:
            self.n_let_go = len(self.pieces)
        return 0

    def is_whole(self) -> bool:
        decoder = Utf8Decoder()
        for piece in self.pieces:
            decoder.push(piece)
        return decoder.pending == b""

    def first_byte_of(self, offset: int) -> int:
        """The piece in which a character begins, also one that is not whole yet."""
        _, places = decoded([*self.pieces, b"\xff"])
        return places[offset]
