"""A text as symbols that are equal where words count as the same, each with its offset in the text.

Symbols are the code points of Unicode's form for caseless comparison (NFKC_Casefold), left decomposed so that a text
can be folded as it grows: case, width, ligatures, composed or combining marks and invisible characters make no
difference; an accent does. A run of white space is one space.

`BOUNDARY` is inserted wherever a word begins or ends, so that whole words are found as plain substrings. Words are runs
of letters, digits and marks; in scripts without spaces between words each letter counts as one. Knows no entries and no
verdicts.
"""

import unicodedata
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache

import regex

BOUNDARY = "\ud800"
"""Half of a surrogate pair, which is no character and so in no text."""

_IGNORABLE = regex.compile(r"\p{Default_Ignorable_Code_Point}+")
_SPACELESS = regex.compile(
    r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Bopomofo}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}\p{Tibetan}\p{Javanese}]"
)

Symbols = list[tuple[str, int]]
"""(symbol, offset of the character it comes from; for a boundary, of the one after it)."""


class _Kind(Enum):
    """Whether a symbol is part of a word."""

    NEITHER = 0
    """White space, punctuation, signs."""
    WORD = 1
    ALONE = 2
    """A word of its own."""


@dataclass(frozen=True, slots=True)
class _Unit:
    """A character with the marks that follow it, folded."""

    symbols: str
    """With the boundaries inside it."""
    stem: str
    """`symbols` without the marks at the end: what they begin with, whatever further marks follow."""
    first: _Kind
    last: _Kind


class Folder:
    """One text being folded. Not thread-safe; the open unit is folded once the next one begins."""

    __slots__ = ("_kind", "_n_read", "_open", "_open_start", "_spaced")

    def __init__(self) -> None:
        self._kind = _Kind.NEITHER
        """Of the last symbol, the open unit's first one included."""
        self._spaced = False
        """The last symbol was a space."""
        self._open = ""
        self._open_start = 0
        self._n_read = 0

    @property
    def n_read(self) -> int:
        """Characters so far."""
        return self._n_read

    def push(self, text: str) -> Symbols:
        """The symbols that are certain after `text` more."""
        symbols: Symbols = []
        for character in text:
            if self._open != "" and _continues(character):
                self._open += character
            else:
                self._close(symbols)
                self._begin(character, symbols)
            self._n_read += 1
        return symbols

    def flush(self) -> Symbols:
        """The symbols that are left, now that nothing follows."""
        symbols: Symbols = []
        self._close(symbols)
        if self._kind is not _Kind.NEITHER:
            symbols.append((BOUNDARY, self._n_read))
            self._kind = _Kind.NEITHER
        return symbols

    def open_stem(self) -> tuple[str, int]:
        """The symbols that the open unit begins with, whatever marks follow, and where it starts."""
        return self._without_repeated_space(_fold(self._open).stem), self._open_start

    def _begin(self, character: str, symbols: Symbols) -> None:
        """Open a unit. Its first character decides whether a word begins or ends before it."""
        self._open, self._open_start = character, self._n_read
        unit = _fold(character)
        if unit.symbols == "":
            return
        if unit.first is not self._kind or unit.first is _Kind.ALONE:
            symbols.append((BOUNDARY, self._open_start))
        self._kind = unit.first

    def _close(self, symbols: Symbols) -> None:
        unit = _fold(self._open)
        if unit.symbols == "":
            return
        symbols += [(symbol, self._open_start) for symbol in self._without_repeated_space(unit.symbols)]
        self._spaced = unit.symbols[-1] == " "
        self._kind = unit.last
        self._open = ""

    def _without_repeated_space(self, symbols: str) -> str:
        return symbols[1:] if self._spaced and symbols[:1] == " " else symbols


def fold(text: str) -> str:
    """A whole text as symbols."""
    folder = Folder()
    return "".join(symbol for symbol, _ in [*folder.push(text), *folder.flush()])


def is_mark(symbol: str) -> bool:
    """Whether a symbol belongs to the one before it."""
    return unicodedata.category(symbol)[0] == "M"


@lru_cache(maxsize=8192)
def _continues(character: str) -> bool:
    """Whether a character is part of the unit that is open before it."""
    if character.isascii():
        return False
    return is_mark(unicodedata.normalize("NFKD", character)[0]) or _IGNORABLE.fullmatch(character) is not None


@lru_cache(maxsize=8192)
def _fold(unit: str) -> _Unit:
    visible = _IGNORABLE.sub("", unicodedata.normalize("NFKD", unit))
    folded = unicodedata.normalize("NFKD", visible.casefold())
    symbols: list[str] = []
    first = kind = None
    for symbol in folded:
        if symbol.isspace():
            symbol = " "
        own = kind if kind is not None and is_mark(symbol) else _kind(symbol)
        if kind is not None and not is_mark(symbol) and (own is not kind or own is _Kind.ALONE):
            symbols.append(BOUNDARY)
        symbols.append(symbol)
        kind = own
        first = first or own
    n_stem = len(symbols)
    while n_stem > 0 and is_mark(symbols[n_stem - 1]):
        n_stem -= 1
    neither = _Kind.NEITHER
    return _Unit("".join(symbols), "".join(symbols[:n_stem]), first or neither, kind or neither)


@lru_cache(maxsize=8192)
def _kind(symbol: str) -> _Kind:
    if _SPACELESS.fullmatch(symbol) is not None:
        return _Kind.ALONE
    return _Kind.WORD if symbol.isalnum() or is_mark(symbol) else _Kind.NEITHER
