"""What one kind of entry knows of a text that grows: the seam between a list and its words and patterns."""

from dataclasses import dataclass
from typing import Protocol

from afterword.completions.filter.verdict import Flag


@dataclass(frozen=True, slots=True)
class MatchState:
    """What is known of the text so far. Offsets as in `verdict.py`."""

    flag: Flag | None
    """The earliest match that no further text can undo."""
    hold: int
    """No further text can make a match that starts before this, apart from `flag`; at most the text's length."""


class Matcher(Protocol):
    """One text being searched for some entries. Raises `TimeoutError` if that takes too long."""

    __slots__ = ()

    def push(self, text: str) -> MatchState:
        """What is known after `text` more."""
        ...

    def flush(self) -> MatchState:
        """What is known now that nothing follows."""
        ...
