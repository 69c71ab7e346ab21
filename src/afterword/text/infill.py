"""A template for filling in the middle, cut at its two places. Knows no tokens and no request."""

import re
from dataclasses import dataclass

_PLACES = re.compile(r"(\{prefix\}|\{suffix\})")


@dataclass(frozen=True, slots=True)
class InfillTemplate:
    """Such as `<PRE> {prefix} <SUF>{suffix} <MID>`: how a model was trained to see what surrounds a gap."""

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
    """Cut a template. Raises `ValueError`, without words, unless it has each of its two places once."""
    parts = _PLACES.split(text)
    if sorted(parts[1::2]) != ["{prefix}", "{suffix}"]:
        raise ValueError
    before, first, between, second, after = parts
    return InfillTemplate(text, before, first.strip("{}"), between, second.strip("{}"), after)
