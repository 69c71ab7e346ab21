"""Where the pieces of a text begin in the text as it was, if a tokenizer changed it before it cut it into pieces.

Vocabularies add spaces, drop and join them, write in lower case, leave accents out, and have a token for what they do
not know. Knows no tokens.
"""

import re
import unicodedata
from collections.abc import Iterable

WINDOW = 1000
"""Folded characters in which a piece is looked for behind what no piece spells."""

SPACES = re.compile(f" {{0,{WINDOW}}}")


def align(pieces: Iterable[str], text: str) -> list[int]:
    """The code point of `text` at which each piece begins, never falling and at most len(text).

    Pieces and text are compared without case, accents and the differences that Unicode calls compatible. What no
    piece spells belongs to the piece before it. Takes time in proportion to both.
    """
    folded, places = _fold(text)
    places.append(len(text))
    found = [_fold(piece)[0] for piece in pieces]
    spelled = "".join(found)
    starts: list[int] = []
    at = n_spelled = 0
    for piece in found:
        # Of several spaces in a row the first is the one that was added.
        n_added = max(0, _n_spaces(spelled, n_spelled) - _n_spaces(folded, at))
        bare = piece[min(n_added, _n_spaces(piece, 0)) :]
        start, at = _place(bare, folded, at)
        n_spelled += len(piece)
        starts.append(places[start])
    return starts


def _n_spaces(text: str, at: int) -> int:
    """Spaces that follow, as far as they are counted."""
    match = SPACES.match(text, at)
    return 0 if match is None else len(match[0])


def _place(piece: str, text: str, at: int) -> tuple[int, int]:
    """(where `piece` begins in `text`, where it ends), not before `at`; (at, at) if it is not there."""
    bare = piece.removeprefix(" ")
    for spelled in (piece, bare):
        if text.startswith(spelled, at):
            return at, at + len(spelled)
    for spelled in (piece, bare):
        found = text.find(spelled, at, at + WINDOW)
        if found >= 0:
            return found, found + len(spelled)
    return at, at


def _fold(text: str) -> tuple[str, list[int]]:
    """The text as it is compared, and the place in `text` of each of its characters."""
    folded: list[str] = []
    places: list[int] = []
    for place, character in enumerate(text):
        for part in unicodedata.normalize("NFKD", character).lower():
            if not unicodedata.combining(part):
                folded.append(part)
                places.append(place)
    return "".join(folded), places
