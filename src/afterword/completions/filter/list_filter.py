"""A filter that is a list of words and patterns: its file format, and the verdict from its matchers.

Knows neither how words nor how patterns are found.
"""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path

from typing_extensions import override

from afterword.completions.filter.effort import IN_THREAD, ON_LOOP, Effort
from afterword.completions.filter.matcher import MatchState
from afterword.completions.filter.patterns import Pattern, PatternMatcher, compile_pattern
from afterword.completions.filter.verdict import ContentFilter, Context, Hold, Verdict, Watch
from afterword.completions.filter.words import WordMatcher, Words, symbols_of
from afterword.errors import ConfigurationError

COMMENT = "#"
SLASH = "/"


class ListFilter(ContentFilter):
    """The words and patterns of a list file."""

    def __init__(self, words: Words | None, patterns: Sequence[Pattern]) -> None:
        """`words` is None and `patterns` empty where the list has none."""
        self._words = words
        self._patterns = tuple(patterns)

    @override
    def watch(self, context: Context) -> "ListWatch":
        words = None if self._words is None else WordMatcher(self._words)
        return ListWatch(words, PatternMatcher(self._patterns) if self._patterns else None)


class ListWatch(Watch):
    """Ends a text at the earliest match in it, however it was cut into pieces.

    Patterns are searched for on the event loop if that takes a millisecond or two. A text for which it takes longer is
    searched in a thread from there on.
    """

    __slots__ = ("_in_thread", "_patterns", "_words")

    def __init__(self, words: WordMatcher | None, patterns: PatternMatcher | None) -> None:
        self._words = words
        self._patterns = patterns
        self._in_thread = False

    @override
    async def push(self, text: str) -> Verdict:
        found = [] if self._words is None else [self._words.push(text)]
        return _verdict(found + await self._search(lambda patterns, effort: patterns.push(text, effort)))

    @override
    async def flush(self) -> Verdict:
        found = [] if self._words is None else [self._words.flush()]
        return _verdict(found + await self._search(PatternMatcher.flush))

    async def _search(self, step: Callable[[PatternMatcher, Effort], MatchState]) -> list[MatchState]:
        if self._patterns is None:
            return []
        if not self._in_thread:
            tried = self._patterns.copy()
            try:
                state = step(tried, ON_LOOP)
            except TimeoutError:
                self._in_thread = True
            else:
                self._patterns = tried
                return [state]
        return [await asyncio.to_thread(step, self._patterns, IN_THREAD)]


def _verdict(states: list[MatchState]) -> Verdict:
    """A match flags the text once no match that begins earlier is possible."""
    if not states:
        return None
    hold = min(state.hold for state in states)
    flag = min((state.flag for state in states if state.flag is not None), key=lambda flag: flag.start, default=None)
    if flag is None or flag.start > hold:
        return Hold(hold)
    return flag


def read_list(path: Path) -> ListFilter:
    """The filter that a list file describes. Raises `ConfigurationError`, with the line where one is to blame."""
    try:
        lines = path.read_text(encoding="utf-8-sig").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"The content filter's list {path} cannot be read: {error}.") from error
    words: dict[str, str] = {}
    patterns: list[Pattern] = []
    for number, line in enumerate(lines, start=1):
        entry = line.strip()
        if entry == "" or entry.startswith(COMMENT):
            continue
        rule = f"line {number}"
        try:
            if entry.startswith(SLASH):
                patterns.append(_pattern(entry, rule))
            else:
                words.setdefault(_symbols(entry), rule)
        except ValueError as error:
            raise ConfigurationError(f"Line {number} of the content filter's list {path} is wrong: {error}.") from error
    return ListFilter(Words(words) if words else None, patterns)


def _symbols(word: str) -> str:
    try:
        return symbols_of(word)
    except ValueError as error:
        raise ValueError(f"the word {word!r} {error}") from error


def _pattern(entry: str, rule: str) -> Pattern:
    source, slash, flags = entry[1:].rpartition(SLASH)
    if slash == "" or source == "":
        raise ValueError(f"{entry!r} begins like a pattern, which is written /pattern/ or /pattern/flags")
    try:
        return compile_pattern(source, flags, rule)
    except ValueError as error:
        raise ValueError(f"the pattern {source!r} {error}") from error
