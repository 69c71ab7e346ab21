"""Matches regular expressions in a text that grows.

By partial matching the `regex` package finds where the earliest match starts that is complete or may become so. Each
pattern is searched with a character after it that no text contains: then a complete match that starts late is never
preferred to one that starts early and is still incomplete.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import regex
from typing_extensions import override

from afterword.completions.filter.effort import IN_THREAD, PATTERN_SECONDS, Effort, within
from afterword.completions.filter.matcher import Matcher, MatchState
from afterword.completions.filter.pattern_dialect import lookahead, relax, translate
from afterword.completions.filter.verdict import Flag

REACH = 1000
"""Characters that a match may depend on: so many from its start on, and so many before it."""

STEP = 250
"""Characters that are added to the text between searches."""

FLAGS = {"i": regex.IGNORECASE, "m": regex.MULTILINE, "s": regex.DOTALL, "x": regex.VERBOSE}

_REFUSED_FLAGS = (
    regex.REVERSE | regex.VERSION1 | regex.POSIX | regex.BESTMATCH | regex.ENHANCEMATCH | regex.WORD | regex.FULLCASE
)

_NEVER = "\ud800"
"""Half of a surrogate pair, which is no character and so in no text."""


@dataclass(frozen=True, slots=True)
class Pattern:
    """A pattern entry of a list."""

    whole: regex.Pattern[str]
    begun: regex.Pattern[str]
    """`whole`, relaxed, with `_NEVER` after it: matches only partially, wherever `whole` does or may still match."""
    settled: regex.Pattern[str]
    """`whole` with as many characters after it as may undo a match."""
    rule: str
    """Its name in the log."""


def compile_pattern(source: str, flags: str, rule: str) -> Pattern:
    """A pattern from how a list writes it. Raises `ValueError` with words to follow "the pattern"."""
    options = 0
    for flag in flags:
        if flag not in FLAGS:
            raise ValueError(f"has the flag {flag!r}; it may have {', '.join(FLAGS)}")
        options |= FLAGS[flag]
    try:
        # As it was written, so that the position in an error is right.
        written = regex.compile(source, options)
    except regex.error as error:
        raise ValueError(f"is not a regular expression: {error}") from error
    if written.flags & _REFUSED_FLAGS:
        raise ValueError("sets a flag inside that it may not have")
    # A comment that the pattern may end in goes to the end of the line.
    end = "\n)" if written.flags & regex.VERBOSE else ")"
    exactly, loosely = f"(?:{translate(source)}{end}", f"(?:{relax(source)}{end}"
    whole = regex.compile(exactly, options)
    begun = regex.compile(f"{loosely}(?s:.)*{_NEVER}", options)
    settled = regex.compile(f"{exactly}(?s:.{{{lookahead(source)}}})", options)
    if whole.match("") is not None:
        raise ValueError("matches the empty text, so it would flag everything")
    return Pattern(whole, begun, settled, rule)


class PatternMatcher(Matcher):
    """Matches all patterns of a list. Each search covers little more than the text that is held.

    `TimeoutError` names the pattern that took too long. What was searched then is of no further use.
    """

    __slots__ = ("_base", "_effort", "_flag", "_patterns", "_places", "_text", "_until")

    def __init__(self, patterns: Sequence[Pattern]) -> None:
        self._patterns = patterns
        self._places = [0] * len(patterns)
        """For each pattern: no match of it starts before this offset, whatever follows."""
        self._text = ""
        self._base = 0
        """The offset of the first character of `_text`."""
        self._flag: Flag | None = None
        self._effort = IN_THREAD
        self._until = 0.0
        """CPU time of this thread at which the search that runs has taken too long."""

    def copy(self) -> "PatternMatcher":
        """One that goes on from here by itself."""
        other = PatternMatcher(self._patterns)
        other._places = list(self._places)
        other._text, other._base, other._flag = self._text, self._base, self._flag
        return other

    @override
    def push(self, text: str, effort: Effort = IN_THREAD) -> MatchState:
        end = self._begin(effort)
        for start in range(0, len(text), STEP):
            self._text += text[start : start + STEP]
            self._each(self._advance, end)
            self._forget()
        return MatchState(self._flag, min(self._places))

    @override
    def flush(self, effort: Effort = IN_THREAD) -> MatchState:
        self._each(self._finish, self._begin(effort))
        return MatchState(self._flag, self._base + len(self._text))

    def _begin(self, effort: Effort) -> float:
        """The CPU time of this thread at which all patterns together have taken too long."""
        self._effort = effort
        return time.thread_time() + effort.seconds

    def _each(self, work: Callable[[int, Pattern], None], end: float) -> None:
        for number, pattern in enumerate(self._patterns):
            self._until = min(end, time.thread_time() + PATTERN_SECONDS)
            try:
                work(number, pattern)
            except TimeoutError:
                raise TimeoutError(
                    f"The pattern in {pattern.rule} of the content filter's list took more than {PATTERN_SECONDS} s."
                ) from None

    def _advance(self, number: int, pattern: Pattern) -> None:
        """Move a pattern's place to the earliest start that is or may become a match."""
        n, place = len(self._text), self._places[number] - self._base
        while True:
            begins = self._begins(pattern, place)
            if begins is None or begins == n:
                place = n
                break
            place = begins
            if not self._is_ruled_out(pattern, place):
                break
            place += 1
        self._places[number] = place + self._base

    def _finish(self, number: int, pattern: Pattern) -> None:
        """Note a pattern's earliest match in the text as it is."""
        place = self._places[number] - self._base
        while (begins := self._first(pattern, place)) is not None:
            # Where the reach cuts the text off, its end is not the end of the text, so anchors must not match there.
            if self._matches(pattern.settled if self._is_in_reach(begins) else pattern.whole, begins):
                self._note(begins, pattern)
                return
            place = begins + 1

    def _is_ruled_out(self, pattern: Pattern, place: int) -> bool:
        """Whether no further text can make a match at `place`; notes one that no further text can undo."""
        matches = self._matches(pattern.settled, place)
        if matches:
            self._note(place, pattern)
        return not matches and self._is_in_reach(place)

    def _is_in_reach(self, place: int) -> bool:
        """Whether all text that a match at `place` may depend on has come."""
        return len(self._text) >= place + REACH

    def _matches(self, pattern: regex.Pattern[str], place: int) -> bool:
        """Whether the pattern matches at `place` within its reach."""
        text, end = self._text, place + REACH
        concurrent = self._effort.concurrent
        return (
            within(self._until, lambda left: pattern.match(text, place, end, concurrent=concurrent, timeout=left))
            is not None
        )

    def _begins(self, pattern: Pattern, place: int) -> int | None:
        """The start of the earliest match, complete or possible, from `place` on."""
        text, concurrent, begun = self._text, self._effort.concurrent, pattern.begun
        found = within(
            self._until,
            lambda left: begun.search(text, place, partial=True, concurrent=concurrent, timeout=left),
        )
        return None if found is None else found.start()

    def _first(self, pattern: Pattern, place: int) -> int | None:
        """The start of the earliest complete match from `place` on."""
        text, concurrent, whole = self._text, self._effort.concurrent, pattern.whole
        found = within(self._until, lambda left: whole.search(text, place, concurrent=concurrent, timeout=left))
        return None if found is None else found.start()

    def _note(self, place: int, pattern: Pattern) -> None:
        start = self._base + place
        if self._flag is None or start < self._flag.start:
            self._flag = Flag(start, pattern.rule)

    def _forget(self) -> None:
        """Drop text that no match can depend on any more, in large pieces: each drop copies the rest."""
        n = min(self._places) - self._base - REACH
        if n > REACH:
            self._text = self._text[n:]
            self._base += n
