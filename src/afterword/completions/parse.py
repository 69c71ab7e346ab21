"""From a decoded JSON body to a `CompletionBody`: the rules of the table of fields, checked by pydantic.

Knows no model. Errors are worded as the API words them. `resolve.py` fills in what needs a model.
"""

from typing import Annotated, Any, Literal

from pydantic import AliasChoices, Field, ValidationError, create_model, model_validator
from pydantic_core import ErrorDetails

from afterword.completions.unsupported import refuse_unsupported
from afterword.errors import InvalidRequest
from afterword.fields.body import CompletionBody
from afterword.fields.field import RequestField
from afterword.fields.shapes import RULES, StreamOptions, named, shown, without_nulls
from afterword.fields.table import FIELDS, body_of
from afterword.text.brief import brief

STRICT_STOPS = 4
STRICT_LOGPROBS = 5
"""The documented limits, which `strict` servers hold clients to."""


def _rules(field: RequestField) -> Any:
    """A field's type with its rules, and its default, for pydantic."""
    names = AliasChoices(field.name, *field.aliases)
    about = Field(
        description=field.doc, validation_alias=names if field.aliases else None, ge=field.ge, gt=field.gt, le=field.le
    )
    return Annotated[field.type, about], field.default


_CHECKS: dict[str, Any] = {"_nulls": model_validator(mode="before")(without_nulls)}

_Given = create_model(
    "CompletionBody",
    __doc__="The body of a completion request, in the order of the public reference, then the extensions.",
    __config__=RULES,
    __validators__=_CHECKS,
    **{field.name: _rules(field) for field in FIELDS},
)


def parse_body(data: object, *, strict: bool) -> CompletionBody:
    """Check a decoded JSON body against every rule that needs no model.

    `strict` holds the client to the documented fields and limits. Raises `InvalidRequest` for the first broken rule.
    """
    try:
        given = _Given.model_validate(data)
    except ValidationError as error:
        raise translated(error.errors(include_url=False)[0]) from None
    assert isinstance(data, dict), "anything else has been refused"
    body = body_of(vars(given))
    refuse_unsupported(data, repetition_penalty=body.sampling.repetition_penalty)
    if body.stream_options is not None and not body.stream:
        raise InvalidRequest("'stream_options' goes with 'stream': true only.", param="stream_options")
    _refuse_alone(vars(given))
    if body.truncate_prompt_tokens == 0:
        raise InvalidRequest(
            "'truncate_prompt_tokens' must be -1 or at least 1, not 0.",
            param="truncate_prompt_tokens",
            code="integer_below_min_value",
        )
    if strict:
        _hold_to_the_reference(data, body)
    return body


def _refuse_alone(values: dict[str, Any]) -> None:
    for field in FIELDS:
        if field.goes_with is not None and field.is_used(values[field.name]) and values[field.goes_with] is None:
            raise InvalidRequest(f"'{field.name}' goes with '{field.goes_with}' only.", param=field.name)


def body_schema() -> dict[str, Any]:
    """JSON schema of a request body, self-contained, for the OpenAPI document. Every field may be null."""
    schema: dict[str, Any] = _Given.model_json_schema()
    options = schema.pop("$defs")["StreamOptions"]
    schema["properties"]["stream_options"].pop("anyOf")
    schema["properties"]["stream_options"].update(options)
    for fields in (schema["properties"], options["properties"]):
        for name, rules in fields.items():
            fields[name] = nullable(rules)
    return schema


def nullable(rules: dict[str, Any]) -> dict[str, Any]:
    """The JSON schema of a field that may also be null."""
    shape = dict(rules)
    about: dict[str, Any] = {key: shape.pop(key) for key in ("title", "description", "default") if key in shape}
    if about.get("default") in ([], [""]):
        about["default"] = None  # an empty tuple is how we keep "none given"; clients leave the field out
    shapes = shape.pop("anyOf", None) or [shape]
    return {**about, "anyOf": [*(s for s in shapes if s != {"type": "null"}), {"type": "null"}]}


def _hold_to_the_reference(data: dict[str, object], body: CompletionBody) -> None:
    refuse_unknown(data, {name for field in FIELDS for name in (field.name, *field.aliases)}, "")
    options = data.get("stream_options")
    if isinstance(options, dict):
        refuse_unknown(options, set(StreamOptions.model_fields), "stream_options.")
    if len(body.stop) > STRICT_STOPS:
        raise InvalidRequest(
            f"'stop' may hold at most {STRICT_STOPS} strings, not {len(body.stop)}.",
            param="stop",
            code="array_above_max_length",
        )
    logprobs = body.shown.logprobs
    if logprobs is not None and logprobs > STRICT_LOGPROBS:
        raise InvalidRequest(
            f"'logprobs' must be at most {STRICT_LOGPROBS}, not {logprobs}.",
            param="logprobs",
            code="integer_above_max_value",
        )


def refuse_unknown(data: dict[str, object], known: set[str], prefix: str) -> None:
    """Raise `InvalidRequest` for the first field that is none of `known`; `prefix`: of its name in the message."""
    for name in data:
        if name not in known:
            spelled = brief(prefix + name)
            raise InvalidRequest(
                f"'{spelled}' is not a field of such a request, and this server refuses unknown fields.",
                param=spelled,
                code="unknown_parameter",
            )


_EXPECTED = {
    "int_type": "an integer",
    "float_type": "a number",
    "bool_type": "a boolean",
    "string_type": "a string",
    "tuple_type": "an array",
    "model_type": "an object",
}

_BOUNDS: dict[str, tuple[str, str, Literal["below_min", "above_max"]]] = {
    "greater_than_equal": ("ge", "at least", "below_min"),
    "greater_than": ("gt", "greater than", "below_min"),
    "less_than_equal": ("le", "at most", "above_max"),
}


def translated(error: ErrorDetails) -> InvalidRequest:
    """One error of pydantic's as one of the API's (docs/rules.md#statuses)."""
    kind, given, where = error["type"], error["input"], error["loc"]
    param = ".".join(part for part in where if isinstance(part, str)) or None
    subject = "The request's body"
    if param is not None:
        subject = f"'{param}'" + "".join(f"[{part}]" for part in where if isinstance(part, int))
    if kind in _BOUNDS:
        key, words, side = _BOUNDS[kind]
        limit = error["ctx"][key]
        number = "integer" if isinstance(limit, int) else "decimal"
        message = f"{subject} must be {words} {int(limit)}, not {shown(given)}."
        return InvalidRequest(message, param=param, code=f"{number}_{side}_value")
    if kind == "finite_number" or (kind == "float_type" and type(given) is int):
        return InvalidRequest(f"{subject} must be a finite number.", param=param, code="invalid_type")
    if kind in _EXPECTED:
        message = f"{subject} must be {_EXPECTED[kind]}, not {named(given)}."
        return InvalidRequest(message, param=param, code="invalid_type")
    return InvalidRequest(f"{subject} {error['msg']}", param=param, code=kind)
