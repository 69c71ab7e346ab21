"""Against repetition, beyond the penalties of `sampling.py`: DRY, n-grams, and where the repetition penalty looks."""

import json
from dataclasses import dataclass
from typing import Annotated, Final

from pydantic import PlainValidator, WithJsonSchema

from afterword.fields.field import Control, extension, fields_of
from afterword.fields.shapes import named, refusal, whole

MAX_BREAKERS: Final = 64
MAX_BREAKER_CHARACTERS: Final = 1000
"""In all of a request together: the prompt is searched for each."""

_LLAMA: Final = ("llama-server",)
_OURS: Final = ("afterword",)
_GROUP: Final = "Repetition"


def _breakers(value: object) -> tuple[str, ...]:
    """Strings, or JSON of them in one string."""
    items = value
    if isinstance(value, str):
        try:
            items = json.loads(value if value.lstrip().startswith("[") else f"[{value}]")
        except ValueError:
            raise refusal("invalid_value", "must be an array of strings, or a string that is JSON of one.") from None
    if not isinstance(items, list | tuple):
        raise refusal("invalid_type", f"must be an array of strings, not {named(items)}.")
    for item in items:
        if not isinstance(item, str):
            raise refusal("invalid_type", f"must hold strings only, not {named(item)}.")
    breakers = tuple(dict.fromkeys(whole(item) for item in items if item != ""))
    n_characters = sum(map(len, breakers))
    if len(breakers) > MAX_BREAKERS or n_characters > MAX_BREAKER_CHARACTERS:
        raise refusal(
            "array_above_max_length",
            f"may hold at most {MAX_BREAKERS} strings of {MAX_BREAKER_CHARACTERS} characters together, "
            f"not {len(breakers)} of {n_characters}.",
        )
    return breakers


Breakers = Annotated[
    tuple[str, ...],
    PlainValidator(_breakers),
    WithJsonSchema({"anyOf": [{"type": "array", "items": {"type": "string"}, "maxItems": 64}, {"type": "string"}]}),
    Control("texts"),
]


@dataclass(frozen=True, slots=True)
class Repeats:
    """Every field is set; the neutral value is given."""

    repetition_penalty_range: int | None = extension(
        None,
        "Last tokens that the repetition penalty looks at; 0 and -1: all.",
        _GROUP,
        ge=-1,
        aliases=("rep_pen_range", "penalty_range", "repetition_range"),
        neutral=(0, -1),
        vendors=_LLAMA,
        modifies="repetition_penalty",
    )
    repeat_last_n: int = extension(
        -1,
        "The same where that is not given; -1: all, 0: none.",
        _GROUP,
        ge=-1,
        vendors=_LLAMA,
        modifies="repetition_penalty",
    )
    rep_pen_slope: float = extension(
        1.0,
        "Part of the repetition penalty in the older half of its range; 0 and 1: all.",
        _GROUP,
        ge=0,
        le=1,
        neutral=(0.0,),
        vendors=_OURS,
        modifies="repetition_penalty",
    )
    dry_multiplier: float = extension(
        0.0, "DRY: what is taken off tokens that would go on with a repetition.", _GROUP, ge=0, le=100, vendors=_LLAMA
    )
    dry_base: float = extension(
        1.75,
        "How much more with each repeated token.",
        _GROUP,
        ge=1,
        le=10,
        vendors=_LLAMA,
        modifies="dry_multiplier",
        uses="dry_multiplier",
    )
    dry_allowed_length: int = extension(
        2,
        "Repeated tokens that cost only the multiplier.",
        _GROUP,
        ge=1,
        vendors=_LLAMA,
        modifies="dry_multiplier",
        uses="dry_multiplier",
    )
    dry_penalty_last_n: int = extension(
        -1,
        "Last tokens that are looked at; 0 and -1: all.",
        _GROUP,
        ge=-1,
        aliases=("dry_range",),
        neutral=(0,),
        vendors=_LLAMA,
        modifies="dry_multiplier",
        uses="dry_multiplier",
    )
    dry_sequence_breakers: Breakers = extension(
        ("\n", ":", '"', "*"),
        "Texts over which no repetition reaches.",
        _GROUP,
        vendors=_LLAMA,
        modifies="dry_multiplier",
        uses="dry_multiplier",
    )
    no_repeat_ngram_size: int = extension(
        0, "No n tokens in a row come twice; 0: they may.", _GROUP, ge=0, vendors=_OURS
    )

    @property
    def penalty_range(self) -> int | None:
        """Last tokens that the repetition penalty looks at; None: all."""
        if self.repetition_penalty_range is not None:
            return self.repetition_penalty_range if self.repetition_penalty_range > 0 else None
        return self.repeat_last_n if self.repeat_last_n >= 0 else None

    @property
    def dry_range(self) -> int | None:
        """Last tokens that DRY looks at; None: all."""
        return self.dry_penalty_last_n if self.dry_penalty_last_n > 0 else None


REPEAT_FIELDS = fields_of(Repeats)
