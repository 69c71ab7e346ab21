"""Texts that must not come about, found in a text that grows by tokens, which may then be taken back.

Knows no models: a token is its bytes. What a banned text is, only a `Finder` knows.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from typing_extensions import override

from afterword.text.stops import StopAutomaton
from afterword.text.utf8 import Utf8Decoder


class Finder(Protocol):
    """One text being searched, character by character, until something was found."""

    @property
    def n_open(self) -> int:
        """Characters at the text's end that a banned text may begin with."""
        ...

    def push(self, character: str) -> int:
        """Characters of the longest banned text that ends with this one; 0: none does."""
        ...


class TextFinder(Finder):
    """Finds texts. Constant time for each character on average, however many texts there are."""

    __slots__ = ("_automaton", "_spelled", "_state")

    def __init__(self, automaton: StopAutomaton, spelled: Callable[[str], str]) -> None:
        """`automaton`: of texts whose characters are as `spelled` makes them."""
        self._automaton, self._spelled = automaton, spelled
        self._state = 0

    @property
    @override
    def n_open(self) -> int:
        return self._automaton.depth(self._state)

    @override
    def push(self, character: str) -> int:
        self._state = self._automaton.step(self._state, self._spelled(character))
        return self._automaton.cut(self._state) or 0


def caseless(character: str) -> str:
    """A character as it is compared where case makes no difference: always one."""
    for spelled in (character.casefold(), character.lower()):
        if len(spelled) == 1:
            return spelled
    return character


@dataclass(frozen=True, slots=True)
class _Token:
    """One that may be taken back. Offsets are code points from the start of the text."""

    start: int
    """Complete characters before it."""
    end: int
    """After the last character that it has bytes of."""
    pending: bytes
    """Bytes of an incomplete character before it."""
    open_from: int
    """Where, before it, the earliest banned text may begin."""


class Watch:
    """One text. The last tokens, with which a banned text may begin, are held. Not thread-safe."""

    __slots__ = ("_base", "_decoder", "_finders", "_n", "_new_finders", "_text", "_tokens")

    def __init__(self, new_finders: Callable[[], Sequence[Finder]], pending: bytes = b"") -> None:
        """`new_finders`: for a text that begins. `pending`: as in `Utf8Decoder`."""
        self._new_finders = new_finders
        self._finders = new_finders()
        self._decoder = Utf8Decoder(pending)
        self._n = 0
        """Complete characters."""
        self._text = ""
        self._base = 0
        """The offset of the first character of `_text`."""
        self._tokens: deque[_Token] = deque()

    @property
    def n_held(self) -> int:
        """Tokens that may have to be taken back."""
        return len(self._tokens)

    def push(self, piece: bytes) -> int:
        """Add the bytes of one token. Returns how many tokens are taken back, this one included; 0: none.

        Those are the token in which the banned text begins that ends first, and all after it. If that token is held no
        more, which may be so after others were taken back, it is all that are.
        """
        start, pending, open_from = self._n, self._decoder.pending, self._open_from
        text = self._decoder.push(piece)
        end = start + len(text) + bool(self._decoder.pending)
        self._tokens.append(_Token(start, end, pending, open_from))
        for character in text:
            found = self._push(character)
            if found > 0:
                return self._take_back(self._n - found)
        while self._tokens and self._tokens[0].end <= self._open_from:
            self._tokens.popleft()
        kept_from = self._tokens[0].open_from if self._tokens else self._open_from
        self._text, self._base = self._text[kept_from - self._base :], kept_from
        return 0

    @property
    def _open_from(self) -> int:
        return self._n - max(finder.n_open for finder in self._finders)

    def _push(self, character: str) -> int:
        self._n += 1
        self._text += character
        return max([finder.push(character) for finder in self._finders])

    def _take_back(self, offset: int) -> int:
        """Take back all tokens from the one on that the character at `offset` begins in."""
        kept = [token for token in self._tokens if token.end <= offset]
        first = self._tokens[len(kept)]
        n_back = len(self._tokens) - len(kept)
        text = self._text[first.open_from - self._base : first.start - self._base]
        self._tokens = deque(kept)
        self._decoder = Utf8Decoder(first.pending)
        self._text = self._text[: first.open_from - self._base]
        self._n = first.open_from
        self._finders = self._new_finders()
        for character in text:
            self._push(character)
        return n_back
