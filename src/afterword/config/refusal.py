"""What is wrong with a configuration, as one sentence: the key, its value, its place and what is allowed.

The only place that words pydantic's errors. The value of a secret key is never repeated.
"""

import difflib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from afterword.config.table_keys import Table, keys_of, read_value, table_in
from afterword.config.tree import SECTIONS, Config
from afterword.config.values import allowed, from_text
from afterword.errors import ConfigurationError

LONGEST_SHOWN = 200
"""Characters of a value that a message repeats."""


Elsewhere = dict[tuple[str, str], tuple[str, object]]
"""Settings that are not from the file: for section and key, the flag or variable and its value."""


def read_option(kind: Any, text: str, flag: str) -> Any:
    """The value of type `kind` that `text` spells. Raises `ConfigurationError`."""
    try:
        return read_value(kind, from_text(kind, text))
    except ValidationError:
        raise _refused(flag, text, allowed(kind)) from None


def read_secret(kind: Any, text: str, place: str) -> Any:
    """The same for a value that no message may repeat."""
    try:
        return read_value(kind, text)
    except ValidationError:
        raise _refused(place, text, allowed(kind), secret=True) from None


def refusal(
    error: ValidationError, document: Mapping[str, Any], elsewhere: Elsewhere, path: Path
) -> ConfigurationError:
    """The sentence about the first error; unknown keys come before values that are not allowed."""
    findings = error.errors(include_url=False)
    unknown = [finding for finding in findings if finding["type"] == "extra_forbidden"]
    where = (unknown or findings)[0]["loc"]
    for (section, name), (place, given) in elsewhere.items():
        if where[:2] == (section, name):
            key = SECTIONS[section][name]
            return _refused(place, given, allowed(key.kind), secret=key.secret)
    return _sentence(where, Config, f"{path}", document)


def _sentence(where: Sequence[int | str], table: type[Table], place: str, given: Any) -> ConfigurationError:
    """`where`: the path from `given`, which is a `table` at `place`, to what is wrong in it."""
    name, *further = where
    assert isinstance(name, str), "the path starts at a table"
    keys = keys_of(table)
    if name not in keys:
        return _unknown(name, keys, place, "table" if table is Config else "setting")
    if name not in given:
        return ConfigurationError(f"There is no {name} in {place}.")
    key, value = keys[name], given[name]
    inner = table_in(key.kind)
    number = further.pop(0) if further and isinstance(further[0], int) else None
    if inner is not None and further:
        if isinstance(number, int):
            return _sentence(further, inner, f"[[{name}]] number {number + 1} of {place}", value[number])
        return _sentence(further, inner, f"[{name}] of {place}" if table is Config else f"{name} in {place}", value)
    words = allowed(key.kind)
    if table is Config:
        words = f"a table, written [{name}]" if name in SECTIONS else f"a list of tables, each written [[{name}]]"
    return _refused(f"{name} in {place}", value, words, secret=key.secret)


def _unknown(name: str, known: Iterable[str], place: str, noun: str) -> ConfigurationError:
    close = difflib.get_close_matches(name, known, n=1)
    hint = f"; did you mean {close[0]!r}?" if close else f": it has {', '.join(sorted(known))}."
    return ConfigurationError(f"There is no {noun} {name!r} in {place}{hint}")


def _refused(place: str, given: object, words: str, *, secret: bool = False) -> ConfigurationError:
    return ConfigurationError(f"{place} is {'not usable' if secret else _shown(given)}: it must be {words}.")


def _shown(given: object) -> str:
    try:
        text = repr(given)
    except ValueError:
        return "a number of thousands of digits"
    return text if len(text) <= LONGEST_SHOWN else text[: LONGEST_SHOWN - 3] + "..."
