"""Rules for names of accounts and keys, and of models that keys are limited to. Knows no storage."""

import difflib
import re
from collections.abc import Iterable

from afterword.errors import AfterwordError

MAX_NAME = 64
"""Characters in the name of an account or a key."""

ACCOUNT_PREFIX = "acct_"
"""How ids of accounts begin and their names must not: wherever a name is accepted an id is too."""

_NAME = re.compile(rf"[A-Za-z0-9][A-Za-z0-9._@-]{{0,{MAX_NAME - 1}}}")
_MODEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*/[^\x00-\x1f\x7f]*[^\s\x00-\x1f\x7f]")


class BadName(AfterwordError):
    """A name that is not allowed, or taken."""


class NoSuchName(AfterwordError):
    """Nothing has that name, or several things have."""


def check_name(name: str, what: str) -> str:
    """A name for an account or a key, as given. Raises `BadName`."""
    if _NAME.fullmatch(name) is None:
        raise BadName(
            f"The name of {what} is {name!r}: it must be 1 to {MAX_NAME} letters, digits, dots, dashes, underscores or "
            "@, and begin with a letter or a digit."
        )
    if name.startswith(ACCOUNT_PREFIX):
        raise BadName(f"The name of {what} is {name!r}: only ids begin with {ACCOUNT_PREFIX}.")
    return name


def check_model(name: str) -> str:
    """The full name of a model, as given. Raises `BadName`."""
    if _MODEL.fullmatch(name) is None:
        raise BadName(
            f"The model is {name!r}: it must be a full name, vendor/name, as /v5/models lists it; a model in this "
            "process is local/NAME."
        )
    return name


def unknown(kind: str, name: str, known: Iterable[str], otherwise: str) -> NoSuchName:
    """The error for an unknown name, with similar names if there are any, else with what to do."""
    close = difflib.get_close_matches(name, list(known), n=3)
    hint = f" Did you mean {' or '.join(close)}?" if close else f" {otherwise}"
    return NoSuchName(f"There is no {kind} {name!r}.{hint}")
