"""What each kind of list entry reports about a growing text: between a list and its words and patterns."""

from dataclasses import dataclass
from typing import Protocol

from afterword.completions.filter.verdict import Flag


@dataclass(frozen=True, slots=True)
class MatchState:
    """Matches in the text so far. Offsets as in `verdict.py`."""

    flag: Flag | None
    """The earliest match that no further text can undo."""
    hold: int
    """No further text can make a match that starts before this, apart from `flag`; at most the text's length."""


class Matcher(Protocol):
    """One text being searched for some entries. Raises `TimeoutError` if that takes too long."""

    __slots__ = ()

    def push(self, text: str) -> MatchState:
        """The state after `text` more."""
        ...

    def flush(self) -> MatchState:
        """The state at the end of the text."""
        ...
