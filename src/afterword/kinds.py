"""Kinds of setting values: how a value written as text becomes one, and which values are allowed.

A kind raises `ValueError` without words of its own; who asked knows the setting's name and says what `label` allows.
Knows no setting and no file format.
"""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol
from urllib.parse import urlsplit

from afterword.text.infill import InfillTemplate, parse_template

NO_DATABASE = "none"

UNITS = {
    "": 1,
    "b": 1,
    "kb": 10**3,
    "mb": 10**6,
    "gb": 10**9,
    "kib": 2**10,
    "mib": 2**20,
    "gib": 2**30,
}


class Kind(Protocol):
    """A set of allowed values."""

    @property
    def label(self) -> str:
        """What is allowed, to follow the words "it must be"."""
        ...

    def parse(self, text: str) -> object:
        """The value that a flag or an environment variable spells. Raises `ValueError`."""
        ...

    def check(self, value: object) -> object:
        """The value that a configuration file gives with a type of its own. Raises `ValueError`."""
        ...


@dataclass(frozen=True, slots=True)
class Share:
    """A part of what the machine has free."""

    fraction: float
    """Above 0, at most 1."""


@dataclass(frozen=True, slots=True)
class Integer:
    """A whole number within limits, both included."""

    minimum: int
    maximum: int | None = None

    @property
    def label(self) -> str:
        """See `Kind`."""
        if self.maximum is None:
            return f"a whole number, {self.minimum} or more"
        return f"a whole number from {self.minimum} to {self.maximum}"

    def parse(self, text: str) -> int:
        """See `Kind`. Signs, spaces and underscores are refused."""
        if re.fullmatch(r"[0-9]+", text) is None:
            raise ValueError
        return self.check(int(text))

    def check(self, value: object) -> int:
        """See `Kind`. A boolean is no number."""
        if not isinstance(value, int) or isinstance(value, bool):
            raise ValueError
        if value < self.minimum or (self.maximum is not None and value > self.maximum):
            raise ValueError
        return value


@dataclass(frozen=True, slots=True)
class Switch:
    """True or false."""

    label: str = "true or false"

    def parse(self, text: str) -> bool:
        """See `Kind`."""
        match text.lower():
            case "true" | "1" | "yes" | "on":
                return True
            case "false" | "0" | "no" | "off":
                return False
        raise ValueError

    def check(self, value: object) -> bool:
        """See `Kind`."""
        if not isinstance(value, bool):
            raise ValueError
        return value


@dataclass(frozen=True, slots=True)
class Text:
    """Any text but a blank one."""

    label: str = "a text that is not blank"

    def parse(self, text: str) -> str:
        """See `Kind`."""
        return self.check(text)

    def check(self, value: object) -> str:
        """See `Kind`."""
        if not isinstance(value, str) or not value.strip():
            raise ValueError
        return value


@dataclass(frozen=True, slots=True)
class Template:
    """A text with a place for what comes before the gap and one for what comes after it."""

    label: str = "a text that holds {prefix} and {suffix}, each of them once"

    def parse(self, text: str) -> InfillTemplate:
        """See `Kind`."""
        return parse_template(text)

    def check(self, value: object) -> InfillTemplate:
        """See `Kind`."""
        if not isinstance(value, str):
            raise ValueError
        return parse_template(value)


@dataclass(frozen=True, slots=True)
class Choice:
    """One of a few words."""

    words: tuple[str, ...]

    @property
    def label(self) -> str:
        """See `Kind`."""
        return "one of " + ", ".join(self.words)

    def parse(self, text: str) -> str:
        """See `Kind`."""
        return self.check(text)

    def check(self, value: object) -> str:
        """See `Kind`."""
        if not isinstance(value, str) or value not in self.words:
            raise ValueError
        return value


@dataclass(frozen=True, slots=True)
class Texts:
    """A list of texts; commas part them where the whole list is one text."""

    label: str = "a list of texts (as a flag or a variable: with commas between them)"

    def parse(self, text: str) -> tuple[str, ...]:
        """See `Kind`. Blank entries are dropped, so `""` is the empty list."""
        return tuple(part.strip() for part in text.split(",") if part.strip())

    def check(self, value: object) -> tuple[str, ...]:
        """See `Kind`."""
        if not isinstance(value, list):
            raise ValueError
        return tuple(Text().check(part) for part in value)


@dataclass(frozen=True, slots=True)
class Bytes:
    """An amount of bytes, at least 1: a number, or text with a unit."""

    label: str = 'an amount of bytes such as 1048576, "32MiB" or "4GB"'

    def parse(self, text: str) -> int:
        """See `Kind`."""
        found = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?) *([A-Za-z]*)", text)
        if found is None or found[2].lower() not in UNITS:
            raise ValueError
        return self.check(int(float(found[1]) * UNITS[found[2].lower()]))

    def check(self, value: object) -> int:
        """See `Kind`."""
        if isinstance(value, str):
            return self.parse(value)
        return Integer(1).check(value)


@dataclass(frozen=True, slots=True)
class Memory:
    """An amount of bytes or a share of the memory that is free."""

    label: str = 'an amount of bytes such as "8GB", or a share of the free memory from "1%" to "100%"'

    def parse(self, text: str) -> int | Share:
        """See `Kind`."""
        if not text.endswith("%"):
            return Bytes().parse(text)
        return Share(Integer(1, 100).parse(text[:-1].strip()) / 100)

    def check(self, value: object) -> int | Share:
        """See `Kind`."""
        if isinstance(value, str):
            return self.parse(value)
        return Bytes().check(value)


@dataclass(frozen=True, slots=True)
class Directory:
    """A directory, which need not exist yet; `~` is the user's home."""

    label: str = "the path of a directory"

    def parse(self, text: str) -> Path:
        """See `Kind`."""
        return self.check(text)

    def check(self, value: object) -> Path:
        """See `Kind`."""
        return Path(Text().check(value)).expanduser()


def _is_redis_url(text: str) -> bool:
    try:
        url = urlsplit(text)
        # Reading the port is what finds out that it is none.
        port = url.port
    except ValueError:
        return False
    if url.scheme == "unix":
        return url.path != ""
    return url.scheme in ("redis", "rediss") and url.hostname is not None and port != 0


@dataclass(frozen=True, slots=True)
class RedisUrl:
    """Where a Redis is."""

    label: str = "a URL such as redis://user:password@host:6379/0, rediss://host or unix:///path/to/socket"

    def parse(self, text: str) -> str:
        """See `Kind`."""
        return self.check(text)

    def check(self, value: object) -> str:
        """See `Kind`."""
        text = Text().check(value)
        if not _is_redis_url(text):
            raise ValueError
        return text


@dataclass(frozen=True, slots=True)
class Database:
    """Where a database is: the path of a SQLite file, the URL of another kind, or the word `NO_DATABASE`."""

    label: str = f"the path of a SQLite file, a URL such as postgresql://user:password@host/name, or {NO_DATABASE}"

    def parse(self, text: str) -> Path | str:
        """See `Kind`."""
        return self.check(text)

    def check(self, value: object) -> Path | str:
        """See `Kind`. Which URLs will do is for who opens them to say."""
        text = Text().check(value)
        return text if text == NO_DATABASE or "://" in text else Path(text).expanduser()


@dataclass(frozen=True, slots=True)
class FunctionName:
    """A Python function, by the names of its module and its own."""

    module: str
    name: str


@dataclass(frozen=True, slots=True)
class FileOrFunction:
    """The path of a file, or a Python function written `module:function`."""

    label: str = "the path of a file, or a Python function written module:function"

    def parse(self, text: str) -> Path | FunctionName:
        """See `Kind`."""
        return self.check(text)

    def check(self, value: object) -> Path | FunctionName:
        """See `Kind`. A file whose path looks like a function can be written with `./` in front."""
        text = Text().check(value)
        module, _, name = text.partition(":")
        if name.isidentifier() and all(part.isidentifier() for part in module.split(".")):
            return FunctionName(module, name)
        return Path(text).expanduser()
