"""Regular expressions that no part of a text may match, by llguidance, which takes no longer for any of them."""

from functools import cache
from typing import Final

from llguidance import LLMatcher, LLTokenizer
from typing_extensions import override

from afterword.engine.grammars.grammar_compiler import GrammarFailed, compiled
from afterword.engine.grammars.read_grammar import LIMITS
from afterword.fields.grammars import Grammar
from afterword.text.watch import Finder

REACH: Final = 256
"""Characters of a match at most: longer ones are not found. For so many beginnings the text is searched at once."""

Expression = LLMatcher
"""One that is compiled, at some place of a text."""


@cache
def _bytes() -> LLTokenizer:
    """A vocabulary of the 256 bytes."""
    return LLTokenizer("byte")


def check_pattern(pattern: str) -> None:
    """Raise `GrammarFailed`, with words to follow the name of a field, for one that cannot be looked for.

    Waits as `compiled` does.
    """
    compiled(Grammar("regex", pattern))
    if begun_pattern(pattern).is_accepting():
        raise GrammarFailed("matches the empty text, which is everywhere.")


def begun_pattern(pattern: str) -> Expression:
    """The beginning of an expression that was checked, for `PatternFinder`s."""
    return LLMatcher(_bytes(), LLMatcher.grammar_from_regex(pattern), log_level=0, limits=LIMITS)


class PatternFinder(Finder):
    """Finds what an expression matches, as soon as it does."""

    def __init__(self, begun: Expression) -> None:
        """`begun`: not changed, so that many may have it."""
        self._begun = begun
        self._open: list[tuple[int, Expression]] = []
        """Where each match that may come about begins, and how far it is; the earliest first."""
        self._n = 0

    @property
    @override
    def n_open(self) -> int:
        return self._n - self._open[0][0] if self._open else 0

    @override
    def push(self, character: str) -> int:
        data = list(character.encode())
        tried = [*self._open, (self._n, self._begun.deep_copy())]
        self._n += 1
        self._open = []
        for start, matcher in tried:
            if matcher.try_consume_tokens(data) == len(data):
                if matcher.is_accepting():
                    return self._n - start
                if self._n - start < REACH:
                    self._open.append((start, matcher))
            if matcher.is_error():
                raise GrammarFailed(f"The banned expression cannot be followed any further: {matcher.get_error()}")
        return 0
