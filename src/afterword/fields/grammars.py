"""The form of an answer: fields that constrain it to a JSON schema, a regular expression, some texts or a grammar.

Each field has the shape that its own server documents; all come down to one `Grammar`.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Annotated, Any, Final, Literal, get_args

from pydantic import PlainValidator, WithJsonSchema
from pydantic_core import PydanticCustomError

from afterword.fields.field import Control, extension, fields_of
from afterword.fields.shapes import named, refusal, shown, whole

MAX_GRAMMAR_CHARACTERS: Final = 200_000
"""Of one grammar, schemas as JSON."""

Kind = Literal["json_schema", "regex", "choice", "lark", "gbnf", "guidance"]


@dataclass(frozen=True, slots=True)
class Grammar:
    """What an answer must be."""

    kind: Kind
    text: str
    """JSON of the schema or of the array of choices; else as it was written."""


PASSED_ON: Final[Mapping[str, tuple[Kind, ...]]] = {
    "afterword": get_args(Kind),
    "vllm": ("json_schema", "regex", "choice", "gbnf", "lark"),
    "llama-server": ("json_schema", "gbnf"),
}
"""What other servers can be told, by their kinds."""


def kinds_lacking(server: str) -> dict[str, str]:
    """The features that a kind of server has not, and what they are called in the sentence that refuses them."""
    return {feature_of(kind): _CALLED[kind] for kind in get_args(Kind) if kind not in PASSED_ON.get(server, ())}


def feature_of(kind: Kind) -> str:
    """The feature of engines that a grammar of this kind uses."""
    return f"grammars_{kind}"


def structured_outputs(grammar: Grammar) -> dict[str, Any]:
    """The grammar as vLLM's `structured_outputs` has it; one of the kinds that are passed on to vLLM."""
    match grammar.kind:
        case "json_schema":
            return {"json": json.loads(grammar.text)}
        case "choice":
            return {"choice": json.loads(grammar.text)}
        case "regex":
            return {"regex": grammar.text}
    return {"grammar": grammar.text}


_CALLED: Final[Mapping[Kind, str]] = {
    "json_schema": "JSON schemas",
    "regex": "regular expressions",
    "choice": "choices",
    "lark": "grammars of Lark's kind",
    "gbnf": "GBNF",
    "guidance": "llguidance's own grammars",
}

ANY_OBJECT: Final = Grammar("json_schema", '{"type": "object"}')


def _grammar(kind: Kind, text: str) -> Grammar:
    if len(text) > MAX_GRAMMAR_CHARACTERS:
        raise refusal(
            "string_above_max_length", f"may have at most {MAX_GRAMMAR_CHARACTERS} characters, not {len(text)}."
        )
    return Grammar(kind, whole(text))


def _schema(value: object) -> Grammar | None:
    """An object, or JSON of one in a string."""
    if isinstance(value, str):
        if value.strip() == "":
            return None
        try:
            value = json.loads(value)
        except ValueError as error:
            raise refusal("invalid_value", f"is no JSON: {error}.") from None
        except RecursionError:
            raise _too_deep() from None
    if value == {}:
        return None
    if not isinstance(value, dict):
        raise refusal("invalid_type", f"must be a JSON schema, an object or JSON of one, not {named(value)}.")
    try:
        return _grammar("json_schema", json.dumps(value))
    except RecursionError:
        raise _too_deep() from None


def _too_deep() -> PydanticCustomError:
    return refusal("invalid_value", "has schemas in schemas beyond what can be read.")


def _regex(value: object) -> Grammar | None:
    if not isinstance(value, str):
        raise refusal("invalid_type", f"must be a regular expression in a string, not {named(value)}.")
    return None if value == "" else _grammar("regex", value)


def _choice(value: object) -> Grammar | None:
    if not isinstance(value, list | tuple) or not all(isinstance(item, str) for item in value):
        raise refusal("invalid_type", f"must be an array of strings, not {named(value)}.")
    return None if len(value) == 0 else _grammar("choice", json.dumps(value))


def _text(value: object) -> Grammar | None:
    """GBNF has `::=`, Lark has not; what begins with a brace is a grammar of llguidance's as JSON."""
    if not isinstance(value, str):
        raise refusal("invalid_type", f"must be a grammar in a string, not {named(value)}.")
    if value.strip() == "":
        return None
    if value.lstrip().startswith("{"):
        return _grammar("guidance", value)
    return _grammar("gbnf" if "::=" in value else "lark", value)


def _any_object(value: object) -> Grammar | None:
    if not isinstance(value, bool):
        raise refusal("invalid_type", f"must be a boolean, not {named(value)}.")
    return ANY_OBJECT if value else None


def _response_format(value: object) -> Grammar | None:
    """OpenAI's chat endpoint's; llama-server's puts the schema beside the type."""
    if not isinstance(value, dict):
        raise refusal("invalid_type", f"must be an object, not {named(value)}.")
    match value:
        case {"type": "text"}:
            return None
        case {"type": "json_schema", "json_schema": {"schema": schema}} | {"type": "json_schema", "schema": schema}:
            return _schema(schema) or ANY_OBJECT
        case {"type": "json_object", "schema": schema}:
            return _schema(schema) or ANY_OBJECT
        case {"type": "json_object"}:
            return ANY_OBJECT
        case {"type": "json_schema"}:
            raise refusal("invalid_value", "has no schema: it belongs into 'json_schema.schema'.")
        case _ if value == {}:
            return None
    kind = shown(value.get("type"))
    raise refusal("invalid_value", f"has the type {kind}; there are 'text', 'json_object' and 'json_schema'.")


_STRUCTURED = {"json": _schema, "regex": _regex, "choice": _choice, "grammar": _text, "json_object": _any_object}


def _structured_outputs(value: object) -> Grammar | None:
    """vLLM's: one of several members."""
    if not isinstance(value, dict):
        raise refusal("invalid_type", f"must be an object, not {named(value)}.")
    given = {name: member for name, member in value.items() if member not in (None, False, "")}
    unknown = [name for name in given if name not in _STRUCTURED]
    if unknown or len(given) > 1:
        raise refusal(
            "invalid_value", f"must have one of {', '.join(_STRUCTURED)}, not {', '.join(map(shown, given))}."
        )
    return next((_STRUCTURED[name](member) for name, member in given.items()), None)


_OBJECT: Any = {"type": "object"}
_OBJECT_OR_TEXT: Any = {"anyOf": [_OBJECT, {"type": "string"}]}
_STRING: Any = {"type": "string"}

Schema = Annotated[Grammar | None, PlainValidator(_schema), WithJsonSchema(_OBJECT_OR_TEXT), Control("lines")]
Regex = Annotated[Grammar | None, PlainValidator(_regex), WithJsonSchema(_STRING), Control("text")]
Choice = Annotated[
    Grammar | None,
    PlainValidator(_choice),
    WithJsonSchema({"type": "array", "items": {"type": "string"}}),
    Control("texts"),
]
Text = Annotated[Grammar | None, PlainValidator(_text), WithJsonSchema(_STRING), Control("lines")]
AnyObject = Annotated[Grammar | None, PlainValidator(_any_object), WithJsonSchema({"type": "boolean"}), Control("text")]
ResponseFormat = Annotated[Grammar | None, PlainValidator(_response_format), WithJsonSchema(_OBJECT), Control("text")]
Structured = Annotated[Grammar | None, PlainValidator(_structured_outputs), WithJsonSchema(_OBJECT), Control("text")]

_GROUP: Final = "Form of the answer"
_LIKE: Final[dict[str, Any]] = {"uses": "grammars", "vendors": tuple(PASSED_ON)}


@dataclass(frozen=True, slots=True)
class Constraints:
    """As the client wrote them. At most one may be given."""

    json_schema: Schema = extension(None, "The answer is JSON that this schema allows.", _GROUP, **_LIKE)
    regex: Regex = extension(
        None, "The answer matches this regular expression as a whole.", _GROUP, aliases=("regex_pattern",), **_LIKE
    )
    grammar: Text = extension(
        None, "The answer is of this grammar, GBNF or Lark.", _GROUP, aliases=("grammar_string",), **_LIKE
    )
    guided_choice: Choice = extension(None, "The answer is one of these texts.", _GROUP, **_LIKE)
    response_format: ResponseFormat = extension(
        None, "JSON, or JSON of a schema, as at OpenAI's chat endpoint.", "Use json_schema instead.", **_LIKE
    )
    structured_outputs: Structured = extension(
        None, "One of json, regex, choice, grammar and json_object, as at vLLM.", "Use json_schema instead.", **_LIKE
    )
    guided_json: Schema = extension(None, "As json_schema.", "Use json_schema instead.", **_LIKE)
    guided_json_object: AnyObject = extension(None, "Any JSON object.", "Use json_schema instead.", **_LIKE)
    guided_regex: Regex = extension(None, "As regex.", "Use regex instead.", **_LIKE)
    guided_grammar: Text = extension(None, "As grammar.", "Use grammar instead.", **_LIKE)
    ebnf: Text = extension(None, "As grammar.", "Use grammar instead.", **_LIKE)

    @property
    def given(self) -> dict[str, Grammar]:
        """Those that the request has, by the names of their fields."""
        values = {one.name: getattr(self, one.name) for one in fields(self)}
        return {name: value for name, value in values.items() if value is not None}


CONSTRAINT_FIELDS = fields_of(Constraints)
