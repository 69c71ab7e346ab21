"""The types of fields that are more than a number or a switch, as pydantic types that normalise to one shape each.

Owns what counts as a prompt, a stop and a logit bias before any model is known. Ids are checked against a vocabulary
in `completions/resolve.py`.
"""

import re
from typing import Annotated, Any, cast

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    PlainValidator,
    WithJsonSchema,
    model_validator,
)
from pydantic_core import PydanticCustomError

from afterword.fields.field import Control

MAX_STOPS = 64
"""Most stops in one request; the documented 4 are asked for by strict servers only (docs/rules.md#stop)."""

MAX_STOP_CHARACTERS = 8000
"""In all stops of a request together: what finds them takes memory and time for each."""

MAX_LOGIT_BIAS = 100.0

PromptItem = str | tuple[int, ...]
"""One prompt: text, or token ids; empty stands for the model's separator."""

_TOKEN_ID = re.compile(r"0|[1-9][0-9]{0,18}")


def refusal(code: str, message: str) -> PydanticCustomError:
    """An error for a validator to raise: `code` as in docs/rules.md#statuses, `message` is shown to the client."""
    return PydanticCustomError(code, "{message}", {"message": message})


def named(value: object) -> str:
    """The JSON type of `value`, with its article."""
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case int():
            return "an integer"
        case float():
            return "a decimal number"
        case str():
            return "a string"
        case list() | tuple():
            return "an array"
        case _:
            return "an object"


def shown(value: object) -> str:
    """A scalar as a message repeats it: short, and always encodable."""
    if isinstance(value, int) and value.bit_length() > 128:
        return f"an integer of {value.bit_length()} bits"
    text = ascii(value)
    return text if len(text) <= 60 else text[:57] + "..."


def whole(text: str) -> str:
    """Refuse halves of surrogate pairs: no byte string in UTF-8 spells them."""
    if not text.isascii():
        try:
            text.encode("utf-8")
        except UnicodeEncodeError as error:
            half = f"U+{ord(text[error.start]):04X} at character {error.start}"
            raise refusal("invalid_value", f"is not valid Unicode: half of a surrogate pair, {half}.") from None
    return text


def prompts_of(value: object) -> tuple[PromptItem, ...]:
    """Every shape of `prompt` as a batch. Null was removed before."""
    match value:
        case str():
            return (whole(value),)
        case [] | ():
            return ("",)
        case list() | tuple():
            return _batch(value)
    raise refusal("invalid_type", f"must be a string, an array of strings or an array of tokens, not {named(value)}.")


def _batch(items: list[object] | tuple[object, ...]) -> tuple[PromptItem, ...]:
    kinds = set(map(type, items))
    if kinds == {str}:
        return tuple(whole(cast(str, item)) for item in items)
    if kinds == {int}:
        return (cast(tuple[int, ...], tuple(items)),)
    if kinds <= {list, tuple}:
        return tuple(_token_array(number, cast(list[object], item)) for number, item in enumerate(items))
    odd = [item for item in items if type(item) not in (str, int, list, tuple)]
    problem = named(odd[0]) if odd else "items of different types"
    raise refusal("invalid_type", f"must hold only strings, only integers or only arrays of integers, not {problem}.")


def _token_array(number: int, items: list[object]) -> tuple[int, ...]:
    for item in items:
        if type(item) is not int:
            raise refusal("invalid_type", f"must hold integers in each token array; array {number} has {named(item)}.")
    return cast(tuple[int, ...], tuple(items))


def _stops(value: object) -> tuple[str, ...]:
    items = [value] if isinstance(value, str) else value
    if not isinstance(items, list | tuple):
        raise refusal("invalid_type", f"must be a string or an array of strings, not {named(value)}.")
    for item in items:
        if not isinstance(item, str):
            raise refusal("invalid_type", f"must hold strings only, not {named(item)}.")
    stops = tuple(whole(item) for item in items if item != "")
    if len(stops) > MAX_STOPS:
        raise refusal("array_above_max_length", f"may hold at most {MAX_STOPS} strings, not {len(stops)}.")
    n_characters = sum(map(len, stops))
    if n_characters > MAX_STOP_CHARACTERS:
        raise refusal(
            "string_above_max_length",
            f"may have at most {MAX_STOP_CHARACTERS} characters in all its strings together, not {n_characters}.",
        )
    return stops


def _logit_bias(value: object) -> tuple[tuple[int, float], ...]:
    if not isinstance(value, dict):
        raise refusal("invalid_type", f"must be an object of token ids and biases, not {named(value)}.")
    return tuple(_bias(key, bias) for key, bias in value.items())


def _bias(key: object, value: object) -> tuple[int, float]:
    if not isinstance(key, str) or _TOKEN_ID.fullmatch(key) is None:
        raise refusal("invalid_value", f"has the key {shown(key)}, which is not a token id in decimal digits.")
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise refusal("invalid_type", f"must give token {key} a number, not {named(value)}.")
    if value < -MAX_LOGIT_BIAS:
        raise refusal("decimal_below_min_value", f"must be at least -100 for token {key}, not {shown(value)}.")
    if value > MAX_LOGIT_BIAS:
        raise refusal("decimal_above_max_value", f"must be at most 100 for token {key}, not {shown(value)}.")
    if value != value:  # NaN, which passes the two comparisons above
        raise refusal("invalid_type", f"must give token {key} a finite number.")
    return int(key), float(value)


_STRINGS = {"type": "array", "items": {"type": "string"}}
_TOKENS = {"type": "array", "items": {"type": "integer", "minimum": 0}}
_BIASES = {"type": "number", "minimum": -MAX_LOGIT_BIAS, "maximum": MAX_LOGIT_BIAS}

PROMPT_SCHEMA: dict[str, Any] = {"anyOf": [{"type": "string"}, _STRINGS, _TOKENS, {"type": "array", "items": _TOKENS}]}
"""Of one text, several, one token array, several."""

Text = Annotated[str, AfterValidator(whole), Control("text")]

Lines = Annotated[str, AfterValidator(whole), Control("lines")]

Prompts = Annotated[
    tuple[PromptItem, ...],
    PlainValidator(prompts_of),
    WithJsonSchema(PROMPT_SCHEMA),
]

Stops = Annotated[
    tuple[str, ...],
    PlainValidator(_stops),
    WithJsonSchema({"anyOf": [{"type": "string"}, {**_STRINGS, "maxItems": MAX_STOPS}]}),
    Control("texts"),
]

# The first fault ends the check: a description of each would take more memory than the request.
TokenIds = Annotated[tuple[Annotated[int, Field(ge=0)], ...], Field(strict=False, fail_fast=True), Control("numbers")]

LogitBias = Annotated[
    tuple[tuple[int, float], ...],
    PlainValidator(_logit_bias),
    WithJsonSchema({"type": "object", "additionalProperties": _BIASES}),
    Control("bias"),
]


def _logprobs_form(value: str) -> str:
    if value not in ("", "json", "base64"):
        raise refusal("invalid_value", f"must be json or base64, not {shown(value)}.")
    return "" if value == "json" else value


LogprobsForm = Annotated[
    str,
    AfterValidator(_logprobs_form),
    WithJsonSchema({"type": "string", "enum": ["", "json", "base64"]}),
    Control("text"),
]

RULES = ConfigDict(strict=True, frozen=True, extra="ignore", allow_inf_nan=False)


def without_nulls(data: object) -> object:
    """`null` means "not given" for every field (docs/rules.md#null)."""
    return {k: v for k, v in data.items() if v is not None} if isinstance(data, dict) else data


def _predicted(value: Any) -> str:
    match value:
        case {"type": "content", "content": str(text)}:
            return text
        case {"type": "content", "content": [*parts]} if all(map(_is_text_part, parts)):
            return "".join(part["text"] for part in parts)
    raise refusal(
        "invalid_type",
        'must be {"type": "content", "content": ...}, with a string or an array of {"type": "text", "text": ...}',
    )


def _is_text_part(part: Any) -> bool:
    match part:
        case {"type": "text", "text": str()}:
            return True
    return False


_PART = {"type": "object", "properties": {"type": {"const": "text"}, "text": {"type": "string"}}}

PredictedText = Annotated[
    str,
    PlainValidator(_predicted),
    WithJsonSchema(
        {
            "type": "object",
            "properties": {
                "type": {"const": "content"},
                "content": {"anyOf": [{"type": "string"}, {"type": "array", "items": _PART}]},
            },
            "required": ["type", "content"],
        }
    ),
]
"""A text that a completion may repeat, as the hosted chat endpoint takes it."""


class StreamOptions(BaseModel):
    """How a stream is written."""

    # docs/rules.md#stream-options; not in the docstring, which clients read in the OpenAPI document.
    model_config = RULES
    _nulls = model_validator(mode="before")(without_nulls)

    include_usage: bool = Field(default=False, description="One more chunk before the end holds the token counts.")
    include_obfuscation: bool = Field(
        default=True, description="Pad each event so that its size does not tell the token."
    )
    continuous_usage_stats: bool = Field(default=False, description="Running token counts in every chunk.")
