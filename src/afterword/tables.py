"""Tables of a configuration file: which keys they may have, and their values by the kinds of their settings.

Knows no setting. Everything wrong is a `ConfigurationError` that names the key, its value, its place and the limit.
"""

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from afterword.errors import ConfigurationError
from afterword.kinds import Kind


@dataclass(frozen=True, slots=True)
class File:
    """A configuration file that has been read; an empty document if there is none."""

    path: Path
    document: dict[str, Any]


class Key(Protocol):
    """What a table may hold under one name."""

    @property
    def name(self) -> str:
        """As it is written."""
        ...

    @property
    def kind(self) -> Kind:
        """Which values it may have."""
        ...

    @property
    def secret(self) -> bool:
        """Whether its value must not be repeated in messages."""
        ...


def check_keys(given: Iterable[str], known: set[str], place: str, noun: str) -> None:
    """Raise `ConfigurationError` for the first key of `given` that is not known, with the one it may have meant."""
    for key in given:
        if key not in known:
            close = difflib.get_close_matches(key, known, n=1)
            hint = f"; did you mean {close[0]!r}?" if close else f": it has {', '.join(sorted(known))}."
            raise ConfigurationError(f"There is no {noun} {key!r} in {place}{hint}")


def refusal(place: str, given: object, kind: Kind, *, secret: bool = False) -> ConfigurationError:
    """The sentence about a value that its kind does not allow; a secret one is not repeated."""
    shown = "not usable" if secret else repr(given)
    return ConfigurationError(f"{place} is {shown}: it must be {kind.label}.")


def tables_of(file: File, name: str) -> list[tuple[dict[str, Any], str]]:
    """The tables written `[[name]]`, each with its place in words. Raises `ConfigurationError`."""
    tables = file.document.get(name, [])
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise ConfigurationError(f"{name} in {file.path} is not a list of tables: write each as [[{name}]].")
    return [(table, f"[[{name}]] number {number} of {file.path}") for number, table in enumerate(tables, start=1)]


def read_table(table: Mapping[str, Any], keys: Iterable[Key], place: str) -> dict[str, Any]:
    """The values that `table` gives, checked; keys that it leaves out are left out. Raises `ConfigurationError`."""
    known = {key.name: key for key in keys}
    check_keys(table, set(known), place, "setting")
    values: dict[str, Any] = {}
    for name, value in table.items():
        try:
            values[name] = known[name].kind.check(value)
        except ValueError:
            raise refusal(f"{name} in {place}", value, known[name].kind, secret=known[name].secret) from None
    return values
