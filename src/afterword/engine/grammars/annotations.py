"""Leaves out of a JSON schema what says nothing of its instances, and what llguidance refuses for not knowing it.

JSON Schema takes an unknown `format` for a note to readers, and an unknown `$schema` for the current draft.
"""

from typing import Any, Final
from urllib.parse import quote

FORMATS: Final = frozenset(
    {"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid", "uri"}
)
"""Those that llguidance holds strings to."""

DRAFTS: Final = ("json-schema.org/draft-", "json-schema.org/draft/20")

_VALUES: Final = frozenset({"const", "enum", "default", "example", "examples"})
"""Keywords under which there are instances, not schemas."""

_NAMED: Final = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
"""Keywords under which any name stands for a schema."""

_IN_REFERENCES: Final = "#/:?&=%+,;@!$'()*~"
"""Characters that a reference has as they are."""


def without_notes(schema: Any) -> Any:
    """The schema in a form that llguidance reads; what is no schema stays as it is."""
    if isinstance(schema, list):
        return [without_notes(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    return {name: _member(name, value) for name, value in schema.items() if not _is_note(name, value)}


def _is_note(name: str, value: Any) -> bool:
    if not isinstance(value, str):
        return False
    if name == "$schema":
        return not value.startswith(tuple(f"{scheme}{draft}" for draft in DRAFTS for scheme in ("http://", "https://")))
    return name == "format" and value not in FORMATS


def _member(name: str, value: Any) -> Any:
    if name in _VALUES:
        return value
    if name in _NAMED and isinstance(value, dict):
        return {key: without_notes(one) for key, one in value.items()}
    if name == "$ref" and isinstance(value, str):
        return quote(value, safe=_IN_REFERENCES)
    return without_notes(value)
