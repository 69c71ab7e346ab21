"""The body of a score request as the client wrote it: its shapes and types, and which fields go together.

Knows no model; `score_plan.py` reads it for one.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BaseModel, Field, PlainValidator, ValidationError, WithJsonSchema, model_validator

from afterword.completions.parse import nullable, refuse_unknown, translated
from afterword.errors import InvalidRequest
from afterword.fields.shapes import (
    PROMPT_SCHEMA,
    RULES,
    PromptItem,
    Prompts,
    Text,
    TokenIds,
    named,
    prompts_of,
    refusal,
    without_nulls,
)

CROSS_ENCODER = ("text_1", "text_2", "data_1", "data_2", "queries", "documents", "query_text", "top_n")
"""Fields of servers that score pairs of texts with a model made for that."""

Pair = tuple[PromptItem, PromptItem]
"""A context and its continuation."""


def _one(value: object) -> PromptItem:
    found = prompts_of(value)
    if len(found) > 1:
        raise refusal("invalid_type", "must be one text or one array of tokens, not several.")
    return found[0]


def _pairs(value: object) -> tuple[Pair, ...]:
    if not isinstance(value, list | tuple):
        raise refusal("invalid_type", f"must be an array of pairs, not {named(value)}.")
    return tuple(_pair(number, pair) for number, pair in enumerate(value))


def _pair(number: int, value: object) -> Pair:
    if not isinstance(value, list | tuple) or len(value) != 2:
        raise refusal("invalid_type", f"must hold arrays of a context and a continuation; item {number} is none.")
    context, continuation = map(_one, value)
    return context, continuation


_ITEM_SCHEMA = {"anyOf": PROMPT_SCHEMA["anyOf"][::2]}

One = Annotated[PromptItem, PlainValidator(_one), WithJsonSchema(_ITEM_SCHEMA)]

Pairs = Annotated[
    tuple[Pair, ...],
    PlainValidator(_pairs),
    WithJsonSchema({"type": "array", "items": {"type": "array", "items": _ITEM_SCHEMA, "minItems": 2, "maxItems": 2}}),
]


class ScoreBody(BaseModel):
    """Continuations of one prompt, pairs, or a query with items and labels: one of the three."""

    model_config = RULES
    _nulls = model_validator(mode="before")(without_nulls)

    model: Text | None = Field(None, description="Name of the model; the default model if missing or blank.")
    prompt: One | None = Field(None, description="The context: text or token ids.")
    continuations: Prompts | None = Field(None, description="What may follow it: one text or token array, or several.")
    pairs: Pairs | None = Field(None, description="Arrays of two, a context and a continuation, in place of the two.")
    query: One | None = Field(None, description="The common part of several texts, after which labels are scored.")
    items: Prompts | None = Field(None, description="The parts in which those texts differ.")
    label_token_ids: TokenIds = Field((), description="Tokens whose probability after query and item is wanted.")
    apply_softmax: bool = Field(False, description="Divide the probabilities of labels by their sum.")
    item_first: bool = Field(False, description="Put the item in front of the query.")
    add_special_tokens: bool = Field(True, description="Add BOS where the model asks for it.")
    user: Text | None = Field(None, description="The end user, for the records.")
    priority: int | None = Field(None, description="As in a completion request.", ge=-(2**31), le=2**31 - 1)


@dataclass(frozen=True, slots=True)
class Labels:
    """Texts after which some tokens are scored."""

    query: PromptItem
    items: tuple[PromptItem, ...]
    label_token_ids: tuple[int, ...]
    apply_softmax: bool
    item_first: bool


@dataclass(frozen=True, slots=True)
class ScoreRequest:
    """Checked for types and for which fields go together."""

    model: str | None
    param: str
    """The field that has most of it."""
    wanted: tuple[Pair, ...] | Labels
    add_special_tokens: bool
    user: str | None
    priority: int | None

    def texts(self) -> Iterator[str]:
        """What is tokenized for it: a context with each of its continuations."""
        wanted = self.wanted
        pairs = [(wanted.query, item) for item in wanted.items] if isinstance(wanted, Labels) else wanted
        return (part for pair in pairs for part in pair if isinstance(part, str))

    @property
    def n_characters(self) -> int:
        """Of all those texts together."""
        return sum(map(len, self.texts()))


def parse_score(data: dict[str, object], *, strict: bool) -> ScoreRequest:
    """Check a decoded body against every rule that needs no model. Raises `InvalidRequest` for the first broken one."""
    for name in CROSS_ENCODER:
        if data.get(name) is not None:
            raise InvalidRequest(
                f"'{name}' is for models that are made to compare two texts, and there are none here: language models "
                "score 'continuations' of a 'prompt', 'pairs', or 'label_token_ids' after a 'query' and its 'items'.",
                param=name,
                code="unsupported_parameter",
            )
    if data.get("stream") not in (None, False):
        raise InvalidRequest("'stream' is not supported here: scores come all at once.", param="stream")
    try:
        body = ScoreBody.model_validate(data)
    except ValidationError as error:
        raise translated(error.errors(include_url=False)[0]) from None
    if strict:
        refuse_unknown(data, set(ScoreBody.model_fields), "")
    param, wanted = _wanted(body)
    return ScoreRequest(body.model, param, wanted, body.add_special_tokens, body.user, body.priority)


def score_schema() -> dict[str, Any]:
    """JSON schema of a body, for the OpenAPI document. Every field may be null."""
    schema = ScoreBody.model_json_schema()
    schema["properties"] = {name: nullable(rules) for name, rules in schema["properties"].items()}
    return schema


_FORMS = {"prompt": ("continuations",), "pairs": (), "query": ("items", "label_token_ids")}
"""The first field of each form and the others that it needs."""

_WITH_QUERY = ("items", "label_token_ids", "apply_softmax", "item_first")


def _wanted(body: ScoreBody) -> tuple[str, tuple[Pair, ...] | Labels]:
    """What is wanted, and the field that has most of it."""
    given = body.model_fields_set
    forms = [first for first, others in _FORMS.items() if given & {first, *others}]
    if len(forms) != 1:
        raise InvalidRequest(
            "A score request has one of three: 'prompt' with 'continuations', 'pairs', or 'query' with 'items' and "
            f"'label_token_ids'; this one has {' and '.join(repr(name) for name in forms) or 'none of them'}.",
            param=forms[1] if forms else "prompt",
        )
    for name in (forms[0], *_FORMS[forms[0]]):
        if name not in given:
            raise InvalidRequest(f"'{name}' is missing: it goes with '{forms[0]}'.", param=name)
    if forms == ["query"]:
        assert body.query is not None
        assert body.items is not None
        labels = _some(body.label_token_ids, "label_token_ids")
        return "items", Labels(body.query, body.items, labels, body.apply_softmax, body.item_first)
    for name in _WITH_QUERY:
        if name in given:
            raise InvalidRequest(f"'{name}' goes with 'query' and 'items' only.", param=name)
    if body.pairs is not None:
        return "pairs", _some(body.pairs, "pairs")
    assert body.prompt is not None
    assert body.continuations is not None
    return "continuations", tuple((body.prompt, continuation) for continuation in body.continuations)


def _some(values: tuple[Any, ...], name: str) -> tuple[Any, ...]:
    if not values:
        raise InvalidRequest(f"'{name}' must not be empty.", param=name, code="array_below_min_length")
    return values
