"""What is left out of a schema says nothing of its instances; everything else stays as it is."""

from typing import Any

import pytest

from afterword.engine.grammars.annotations import without_notes
from afterword.engine.grammars.grammar_compiler import compiled
from afterword.fields.grammars import Grammar


@pytest.mark.parametrize(
    ("schema", "left"),
    [
        ({"type": "string", "format": "int32"}, {"type": "string"}),
        ({"type": "string", "format": "uuid"}, {"type": "string", "format": "uuid"}),
        ({"properties": {"format": {"format": "x"}}}, {"properties": {"format": {}}}),
        (
            {"enum": [{"format": "x"}], "const": {"$schema": "y"}},
            {"enum": [{"format": "x"}], "const": {"$schema": "y"}},
        ),
        ({"anyOf": [{"format": "x"}, True]}, {"anyOf": [{}, True]}),
        ({"$schema": "https://json-schema.org/schema"}, {}),
        (
            {"$schema": "http://json-schema.org/draft-07/schema#"},
            {"$schema": "http://json-schema.org/draft-07/schema#"},
        ),
        ({"$ref": "#/$defs/A<b>"}, {"$ref": "#/$defs/A%3Cb%3E"}),
        ({"properties": {"$ref": {"type": "string"}}}, {"properties": {"$ref": {"type": "string"}}}),
        (False, False),
    ],
    ids=str,
)
def test_what_is_left_of_a_schema(schema: Any, left: Any) -> None:
    assert without_notes(schema) == left


@pytest.mark.parametrize(
    "text",
    [
        '{"type": "string", "format": "password"}',
        '{"$schema": "https://json-schema.org/schema", "type": "integer"}',
        '{"$schema": "http://json-schema.org/draft-07/schema", "type": "integer"}',
        '{"$ref": "#/definitions/A<b>", "definitions": {"A<b>": {"type": "integer"}}}',
    ],
)
def test_it_can_be_followed(text: str) -> None:
    assert compiled(Grammar("json_schema", text)).text != ""
