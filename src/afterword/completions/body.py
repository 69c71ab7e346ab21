"""What the client wrote: the fields of a request, their types, ranges and defaults. Knows no model.

The defaults are OpenAI's and are written here only (docs/rules.md#defaults). `resolve.py` fills in what needs a model.
"""

from typing import Annotated, Any, Literal

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic_core import ErrorDetails

from afterword.completions.fields import LogitBias, Prompts, Stops, Text, named, shown
from afterword.completions.unsupported import refuse_unsupported
from afterword.errors import InvalidRequest

INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1

STRICT_STOPS = 4
STRICT_LOGPROBS = 5
"""The documented limits, asked for by strict servers."""


REPETITION_PENALTY_NAMES = ("repetition_penalty", "repeat_penalty", "rep_pen")
"""What servers call it; the first one given counts."""

_RULES = ConfigDict(strict=True, frozen=True, extra="ignore", allow_inf_nan=False)


def _without_nulls(data: object) -> object:
    """`null` means "not given" for every field (docs/rules.md#null)."""
    return {k: v for k, v in data.items() if v is not None} if isinstance(data, dict) else data


class StreamOptions(BaseModel):
    """How a stream is written (docs/rules.md#stream-options)."""

    model_config = _RULES
    _nulls = model_validator(mode="before")(_without_nulls)

    include_usage: bool = Field(default=False, description="One more chunk before the end holds the token counts.")
    include_obfuscation: bool = Field(
        default=True, description="Pad each event so that its size does not tell the token."
    )
    continuous_usage_stats: bool = Field(default=False, description="Running token counts in every chunk.")


class CompletionBody(BaseModel):
    """The body of a completion request, in the order of the public reference, then the extensions."""

    model_config = _RULES
    _nulls = model_validator(mode="before")(_without_nulls)

    model: Text | None = Field(default=None, description="Name of the model; the default model if missing or blank.")
    prompt: Prompts = Field(
        default=("",), description="Text or token ids, or an array of either; empty is a new document."
    )
    best_of: int | None = Field(
        default=None, ge=1, le=20, description="Candidates to choose the n likeliest from; n if null."
    )
    echo: bool = Field(default=False, description="Put the prompt in front of the text.")
    frequency_penalty: float = Field(default=0.0, ge=-2, le=2, description="Per occurrence in the completion so far.")
    logit_bias: LogitBias = Field(
        default=(), description="Added to the logits of these token ids; -100 bans, 100 forces."
    )
    logprobs: int | None = Field(
        default=None, ge=0, description="Log-probabilities of the sampled and the k likeliest tokens."
    )
    max_tokens: int = Field(default=16, ge=0, description="Most tokens to generate; 0 only scores the prompt.")
    n: int = Field(default=1, ge=1, le=128, description="Choices for each prompt.")
    presence_penalty: float = Field(
        default=0.0, ge=-2, le=2, description="Once for any token of the completion so far."
    )
    seed: int | None = Field(
        default=None, ge=INT64_MIN, le=INT64_MAX, description="The same seed gives the same answer."
    )
    stop: Stops = Field(default=(), description="Texts that end a choice and are left out of it.")
    stream: bool = Field(default=False, description="Send the choices as they grow.")
    stream_options: StreamOptions | None = Field(default=None, description="Only with stream.")
    suffix: Text = Field(default="", description="Text that comes after the completion.")
    temperature: float = Field(default=1.0, ge=0, le=2, description="Divides the logits; 0 takes the likeliest token.")
    top_p: float = Field(
        default=1.0, ge=0, le=1, description="Sample from the likeliest tokens that have this mass together."
    )
    user: Text | None = Field(default=None, description="The end user, for the records.")

    top_k: int = Field(default=0, ge=-1, description="Sample from the k likeliest tokens; 0 and -1: from all.")
    min_p: float = Field(
        default=0.0, ge=0, le=1, description="Drop tokens less likely than this part of the likeliest."
    )
    repetition_penalty: float = Field(
        default=1.0,
        gt=0,
        validation_alias=AliasChoices(*REPETITION_PENALTY_NAMES),
        description="Divides the logits of tokens seen in prompt or completion; 1 is off.",
    )
    ignore_eos: bool = Field(default=False, description="Go on past the end-of-text token.")
    min_tokens: int = Field(default=0, ge=0, description="Sample no end before this many tokens.")
    stop_token_ids: tuple[Annotated[int, Field(ge=0)], ...] = Field(
        default=(), strict=False, description="Tokens that end."
    )
    add_special_tokens: bool = Field(default=True, description="Add BOS where the model asks for it.")
    skip_special_tokens: bool = Field(default=True, description="Give control tokens no text.")
    include_stop_str_in_output: bool = Field(default=False, description="Leave the stop in the text.")
    truncate_prompt_tokens: int = Field(default=-1, ge=-1, description="Keep the last k prompt tokens; -1: all.")
    prompt_logprobs: int | None = Field(
        default=None, ge=0, description="Log-probabilities of the prompt, beside the choice."
    )
    return_tokens_as_token_ids: bool = Field(
        default=False, description="Log-probabilities name each token `token_id:N`."
    )


def parse_body(data: object, *, strict: bool) -> CompletionBody:
    """Check a decoded JSON body against every rule that needs no model.

    `strict` holds the client to the documented fields and limits. Raises `InvalidRequest` for the first broken rule.
    """
    try:
        body = CompletionBody.model_validate(data)
    except ValidationError as error:
        raise _translated(error.errors(include_url=False)[0]) from None
    assert isinstance(data, dict), "anything else has been refused"
    refuse_unsupported(data, repetition_penalty=body.repetition_penalty)
    if body.stream_options is not None and not body.stream:
        raise InvalidRequest("'stream_options' goes with 'stream': true only.", param="stream_options")
    if body.truncate_prompt_tokens == 0:
        raise InvalidRequest(
            "'truncate_prompt_tokens' must be -1 or at least 1, not 0.",
            param="truncate_prompt_tokens",
            code="integer_below_min_value",
        )
    if strict:
        _hold_to_the_reference(data, body)
    return body


def body_schema() -> dict[str, Any]:
    """JSON schema of a request body, self-contained, for the OpenAPI document. Every field may be null."""
    schema = CompletionBody.model_json_schema()
    options = schema.pop("$defs")["StreamOptions"]
    schema["properties"]["stream_options"].pop("anyOf")
    schema["properties"]["stream_options"].update(options)
    for fields in (schema["properties"], options["properties"]):
        for name, rules in fields.items():
            fields[name] = _nullable(rules)
    return schema


def _nullable(rules: dict[str, Any]) -> dict[str, Any]:
    shape = dict(rules)
    about: dict[str, Any] = {key: shape.pop(key) for key in ("title", "description", "default") if key in shape}
    if isinstance(about.get("default"), list):
        about["default"] = None  # our normal form of "none given", not one of the client's
    shapes = shape.pop("anyOf", None) or [shape]
    return {**about, "anyOf": [*(s for s in shapes if s != {"type": "null"}), {"type": "null"}]}


def _hold_to_the_reference(data: dict[str, object], body: CompletionBody) -> None:
    _refuse_unknown(data, {*CompletionBody.model_fields, *REPETITION_PENALTY_NAMES}, "")
    options = data.get("stream_options")
    if isinstance(options, dict):
        _refuse_unknown(options, set(StreamOptions.model_fields), "stream_options.")
    if len(body.stop) > STRICT_STOPS:
        raise InvalidRequest(
            f"'stop' may hold at most {STRICT_STOPS} strings, not {len(body.stop)}.",
            param="stop",
            code="array_above_max_length",
        )
    if body.logprobs is not None and body.logprobs > STRICT_LOGPROBS:
        raise InvalidRequest(
            f"'logprobs' must be at most {STRICT_LOGPROBS}, not {body.logprobs}.",
            param="logprobs",
            code="integer_above_max_value",
        )


def _refuse_unknown(data: dict[str, object], known: set[str], prefix: str) -> None:
    for name in data:
        if name not in known:
            spelled = prefix + name.encode("utf-8", "backslashreplace").decode("utf-8")
            raise InvalidRequest(
                f"'{spelled}' is not a field of a completion request, and this server refuses unknown fields.",
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


def _translated(error: ErrorDetails) -> InvalidRequest:
    """One finding of pydantic's in the API's terms (docs/rules.md#statuses)."""
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
