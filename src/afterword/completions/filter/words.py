"""Matches whole words and phrases in a text that grows, however they are written (`folding.py`).

An Aho-Corasick automaton over symbols finds all of them at once: its state is the longest end of the text that may
still become an entry, which is also exactly what has to be held back.
"""

from collections import deque
from collections.abc import Mapping

from typing_extensions import override

from afterword.completions.filter.folding import BOUNDARY, Folder, Symbols, fold, is_mark
from afterword.completions.filter.matcher import Matcher, MatchState
from afterword.completions.filter.verdict import Flag
from afterword.text.stops import StopAutomaton


class Words:
    """The word entries of a list. Immutable."""

    __slots__ = ("automaton", "rules")

    def __init__(self, entries: Mapping[str, str]) -> None:
        """`entries`: from each word's symbols (`symbols_of`) to its name in the log."""
        self.rules = dict(entries)
        self.automaton = StopAutomaton(list(self.rules))


def symbols_of(word: str) -> str:
    """A word as it is searched. Raises `ValueError` if it cannot be matched; the message continues "the word"."""
    symbols = fold(word)
    letters = symbols.replace(BOUNDARY, "").strip()
    if letters == "":
        raise ValueError("has no visible character")
    if is_mark(letters[0]):
        raise ValueError("begins with a combining mark, which belongs to the character before it")
    return symbols


class WordMatcher(Matcher):
    """Matches all words of a list. Amortised constant time per character, however many words there are."""

    __slots__ = ("_flag", "_folder", "_state", "_tail", "_words")

    def __init__(self, words: Words) -> None:
        self._words = words
        self._folder = Folder()
        self._state = 0
        self._tail: deque[tuple[str, int]] = deque()
        """The symbols of the state, with their offsets."""
        self._flag: Flag | None = None

    @override
    def push(self, text: str) -> MatchState:
        self._step(self._folder.push(text))
        return MatchState(self._flag, self._hold())

    @override
    def flush(self) -> MatchState:
        self._step(self._folder.flush())
        return MatchState(self._flag, self._folder.n_read)

    def _step(self, symbols: Symbols) -> None:
        automaton, tail = self._words.automaton, self._tail
        for symbol, start in symbols:
            self._state = automaton.step(self._state, symbol)
            tail.append((symbol, start))
            while len(tail) > automaton.depth(self._state):
                tail.popleft()
            n_matched = automaton.cut(self._state)
            if n_matched is not None:
                self._found(n_matched)

    def _found(self, n_symbols: int) -> None:
        """Keep the earliest match. The automaton gives the longest one of those that end in the same place."""
        matched = list(self._tail)[-n_symbols:]
        start = matched[0][1]
        if self._flag is None or start < self._flag.start:
            self._flag = Flag(start, self._words.rules["".join(symbol for symbol, _ in matched)])

    def _hold(self) -> int:
        """Where the longest end of the text starts that may become an entry, the open unit included."""
        automaton, state = self._words.automaton, self._state
        stem, stem_start = self._folder.open_stem()
        for symbol in stem:
            state = automaton.step(state, symbol)
        n_before = automaton.depth(state) - len(stem)
        if n_before > 0:
            return self._tail[-n_before][1]
        return stem_start if automaton.depth(state) > 0 else self._folder.n_read
