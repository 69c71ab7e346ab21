"""Kinds of values that have their place in a table of the configuration file: addresses, times, lists and tables.

See `kinds.py` for what a kind is.
"""

from dataclasses import dataclass
from urllib.parse import urlsplit

from afterword.kinds import Choice, Text, Texts


@dataclass(frozen=True, slots=True)
class Words:
    """A list of words out of a few."""

    words: tuple[str, ...]

    @property
    def label(self) -> str:
        """See `Kind`."""
        return "a list out of " + ", ".join(self.words)

    def parse(self, text: str) -> tuple[str, ...]:
        """See `Kind`. Commas part the words."""
        return self.check(list(Texts().parse(text)))

    def check(self, value: object) -> tuple[str, ...]:
        """See `Kind`."""
        if not isinstance(value, list):
            raise ValueError
        return tuple(Choice(self.words).check(word) for word in value)


@dataclass(frozen=True, slots=True)
class OneOrMore:
    """A text, or a list of at least one."""

    label: str = "a text, or a list of texts that is not empty"

    def parse(self, text: str) -> tuple[str, ...]:
        """See `Kind`. Commas part the texts."""
        return self.check(list(Texts().parse(text)))

    def check(self, value: object) -> tuple[str, ...]:
        """See `Kind`."""
        texts = Texts().check([value] if isinstance(value, str) else value)
        if not texts:
            raise ValueError
        return texts


@dataclass(frozen=True, slots=True)
class Seconds:
    """A time in seconds, more than none."""

    label: str = "a number of seconds above 0"

    def parse(self, text: str) -> float:
        """See `Kind`."""
        return self.check(float(text))

    def check(self, value: object) -> float:
        """See `Kind`. Infinity is no time to wait."""
        if not isinstance(value, int | float) or isinstance(value, bool) or not 0 < value < float("inf"):
            raise ValueError
        return float(value)


@dataclass(frozen=True, slots=True)
class HttpUrl:
    """The address of a server, without a slash at its end."""

    label: str = "an address that starts with http:// or https://"

    def parse(self, text: str) -> str:
        """See `Kind`."""
        return self.check(text)

    def check(self, value: object) -> str:
        """See `Kind`."""
        if not isinstance(value, str):
            raise ValueError
        parts = urlsplit(value)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
            raise ValueError
        return value.rstrip("/")


@dataclass(frozen=True, slots=True)
class TextTable:
    """A table of texts."""

    label: str = "a table of texts"

    def parse(self, text: str) -> dict[str, str]:
        """See `Kind`. A table cannot be written as one text."""
        return self.check(text)

    def check(self, value: object) -> dict[str, str]:
        """See `Kind`."""
        return {name: Text().check(text) for name, text in Table().check(value).items()}


@dataclass(frozen=True, slots=True)
class Table:
    """A table whose keys somebody else judges."""

    label: str = "a table"

    def parse(self, text: str) -> dict[str, object]:
        """See `Kind`. A table cannot be written as one text."""
        return self.check(text)

    def check(self, value: object) -> dict[str, object]:
        """See `Kind`."""
        if not isinstance(value, dict):
            raise ValueError
        return value
