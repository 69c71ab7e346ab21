"""Parses templates for filling in the middle. Knows no tokens and no request."""

import re
from dataclasses import dataclass

_PLACES = re.compile(r"(\{prefix\}|\{suffix\})")


@dataclass(frozen=True, slots=True)
class InfillTemplate:
    """Such as `<PRE> {prefix} <SUF>{suffix} <MID>`: the format that the model was trained with."""

    text: str
    """The template as written."""
    before: str
    first: str
    """`prefix` or `suffix`, whichever comes first."""
    between: str
    second: str
    """The other one."""
    after: str


def parse_template(text: str) -> InfillTemplate:
    """Cut a template at its placeholders. Raises an empty `ValueError` unless each of the two is there once."""
    parts = _PLACES.split(text)
    if sorted(parts[1::2]) != ["{prefix}", "{suffix}"]:
        raise ValueError
    before, first, between, second, after = parts
    return InfillTemplate(text, before, first.strip("{}"), between, second.strip("{}"), after)
