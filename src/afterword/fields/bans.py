"""What a completion may not have: texts, what regular expressions match, and tokens, as other servers spell it."""

from dataclasses import dataclass
from typing import Annotated, Any, Final

from pydantic import PlainValidator, WithJsonSchema

from afterword.fields.field import Control, extension, fields_of
from afterword.fields.shapes import named, refusal, shown, whole

MAX_BANNED: Final = 2000
MAX_BANNED_CHARACTERS: Final = 50_000
"""In one field: what finds them takes memory for each, and time to be made."""

MAX_EXPRESSIONS: Final = 64
MAX_EXPRESSION_CHARACTERS: Final = 8000


@dataclass(frozen=True, slots=True)
class TextBans:
    """All texts that a completion may not have."""

    exact: tuple[str, ...] = ()
    caseless: tuple[str, ...] = ()
    """In whatever case."""
    pattern: str = ""
    """One expression, which no part of the text may match; empty for none."""


NO_BANS: Final = TextBans()


def _strings(value: object, most: int, most_characters: int) -> tuple[str, ...]:
    """An array of texts, or one; empty ones are none."""
    items = [value] if isinstance(value, str) else value
    if not isinstance(items, list | tuple):
        raise refusal("invalid_type", f"must be an array of strings, not {named(value)}.")
    for item in items:
        if not isinstance(item, str):
            raise refusal("invalid_type", f"must hold strings only, not {named(item)}.")
    strings = tuple(dict.fromkeys(whole(item) for item in items if item != ""))
    n_characters = sum(map(len, strings))
    if len(strings) > most or n_characters > most_characters:
        raise refusal(
            "array_above_max_length",
            f"may hold at most {most} strings of {most_characters} characters together, "
            f"not {len(strings)} of {n_characters}.",
        )
    return strings


def _texts(value: object) -> tuple[str, ...]:
    return _strings(value, MAX_BANNED, MAX_BANNED_CHARACTERS)


def _expressions(value: object) -> tuple[str, ...]:
    return _strings(value, MAX_EXPRESSIONS, MAX_EXPRESSION_CHARACTERS)


def _ids(value: object) -> tuple[int, ...]:
    """An array of token ids, or a string of them with commas between."""
    items = [item.strip() for item in value.split(",")] if isinstance(value, str) else value
    if not isinstance(items, list | tuple):
        raise refusal("invalid_type", f"must be an array of token ids, not {named(value)}.")
    if isinstance(value, str):
        odd = next((item for item in items if item != "" and not (item.isascii() and item.isdigit())), None)
        if odd is not None:
            raise refusal("invalid_value", f"has {shown(odd)}, which is not a token id in decimal digits.")
        return tuple(dict.fromkeys(int(item) for item in items if item != ""))
    for item in items:
        if type(item) is not int:
            raise refusal("invalid_type", f"must hold integers only, not {named(item)}.")
        if item < 0:
            raise refusal("integer_below_min_value", f"must hold token ids, not {shown(item)}.")
    return tuple(dict.fromkeys(items))


def _ids_or_texts(value: object) -> tuple[int, ...] | tuple[str, ...]:
    """KoboldCpp's texts, or TabbyAPI's token ids."""
    has_texts = isinstance(value, list | tuple) and any(isinstance(item, str) for item in value)
    return _texts(value) if has_texts else _ids(value)


_STRINGS: Any = {"type": "array", "items": {"type": "string"}}
_STRING: Any = {"type": "string"}
_IDS: Any = {"type": "array", "items": {"type": "integer", "minimum": 0}}

Texts = Annotated[
    tuple[str, ...], PlainValidator(_texts), WithJsonSchema({"anyOf": [_STRINGS, _STRING]}), Control("texts")
]
Expressions = Annotated[
    tuple[str, ...], PlainValidator(_expressions), WithJsonSchema({"anyOf": [_STRINGS, _STRING]}), Control("texts")
]
Ids = Annotated[tuple[int, ...], PlainValidator(_ids), WithJsonSchema({"anyOf": [_IDS, _STRING]}), Control("numbers")]
IdsOrTexts = Annotated[
    tuple[int, ...] | tuple[str, ...],
    PlainValidator(_ids_or_texts),
    WithJsonSchema({"anyOf": [_IDS, _STRINGS, _STRING]}),
    Control("texts"),
]

_GROUP: Final = "Bans"
_TEXTS: Final[dict[str, Any]] = {"uses": "bans", "vendors": ("afterword",)}
_TOKENS: Final[dict[str, Any]] = {"uses": "logit_bias", "needs_ids": True, "supports": ("logit_bias",)}


@dataclass(frozen=True, slots=True)
class Bans:
    """As the client wrote them."""

    banned_strings: Texts = extension((), "Texts that no choice has, whatever their case.", _GROUP, **_TEXTS)
    bad_words: Texts = extension((), "The same, in the case that they have.", _GROUP, vendors=("vllm",))
    banned_regex: Expressions = extension((), "Regular expressions that no part of a choice matches.", _GROUP, **_TEXTS)
    banned_regex_case_insensitive: Expressions = extension((), "The same, whatever the case.", _GROUP, **_TEXTS)
    banned_tokens: IdsOrTexts = extension(
        (), "Token ids as custom_token_bans, or texts as bad_words.", "Use bad_words or custom_token_bans.", **_TEXTS
    )
    custom_token_bans: Ids = extension((), "Ids of tokens that are not sampled.", _GROUP, **_TOKENS)
    ban_eos_token: bool = extension(
        False, "Sample none of the model's own end tokens.", _GROUP, aliases=("use_default_badwordsids",), **_TOKENS
    )

    @property
    def ids(self) -> tuple[int, ...]:
        """Of tokens that are not sampled."""
        return (*self.custom_token_bans, *(one for one in self.banned_tokens if isinstance(one, int)))

    @property
    def patterns(self) -> dict[str, str]:
        """What the expressions of each field match, by the names of those that have any."""
        fields = (
            ("banned_regex", "(?:", self.banned_regex),
            ("banned_regex_case_insensitive", "(?i:", self.banned_regex_case_insensitive),
        )
        return {name: "|".join(f"{opening}{one})" for one in own) for name, opening, own in fields if own}

    @property
    def exact(self) -> tuple[str, ...]:
        """Texts in their own case."""
        return (*self.bad_words, *(one for one in self.banned_tokens if isinstance(one, str)))


BAN_FIELDS = fields_of(Bans)
