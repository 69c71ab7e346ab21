"""One field of a completion request, described once. Knows no request and no model.

A frozen dataclass declares its fields with `documented` and `extension`; `fields_of` reads the descriptions back. From
them are made the body's schema, the command line's options, the playground's form, docs/fields.md, the requests to
vendors, and the refusals where a model lacks a feature.
"""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from types import NoneType
from typing import Any, Literal, TypeVar, get_args

GROUPS = (
    "Length and choices",
    "Sampling",
    "More samplers",
    "Repetition",
    "Form of the answer",
    "Beams and guidance",
    "Bans",
    "Single tokens",
    "Probabilities",
    "Prompt and text",
)
"""Groups of the playground's form, in their order."""

FOLDED = ("More samplers", "Form of the answer", "Beams and guidance", "Bans")
"""Groups that are closed at first."""

Kind = Literal["sampling", "answer", "neutral"]
"""What a field changes: which tokens are sampled, only what is shown of them, or neither."""


@dataclass(frozen=True, slots=True)
class Control:
    """An annotation of a field's type: how its values are entered by hand.

    `text`, `lines` (a text of several), `texts`, `numbers`, `bias` or `switch`; numbers and booleans need none.
    """

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestField:
    """One row of the table."""

    name: str = ""
    type: Any = None
    """What a value becomes, as pydantic reads it."""
    default: Any
    doc: str
    """One sentence."""
    place: str
    """One of `GROUPS`, or a sentence on how the playground's page sets the field by itself."""
    kind: Kind = "sampling"
    documented: bool = False
    """The hosted API has it; all others are extensions."""
    ge: float | None = None
    gt: float | None = None
    le: float | None = None
    aliases: tuple[str, ...] = ()
    """Other names that clients use. If a body has several of them, its own name counts first, then this order."""
    neutral: tuple[object, ...] = ()
    """Values that change nothing, besides the default."""
    draws: bool = False
    """Only affects random draws, so it does not matter to greedy requests."""
    modifies: str | None = None
    """The field without which it changes nothing; it is only used with that one."""
    goes_with: str | None = None
    """The field without which it is refused."""
    uses: str | None = None
    """The engine's feature that it uses, if that has another name than the field."""
    needs_ids: bool = False
    """It is given as token ids, or derived from them: only with the model's own tokenizer."""
    ours_with_ids: bool = False
    """With the model's own tokenizer this server does it by itself, whatever a vendor supports."""
    supports: tuple[str, ...] = ()
    """Switches of a vendor's `supports` that must all be on."""
    only_here: bool = False
    """Engines of this server alone have it."""
    vendors: tuple[str, ...] = ()
    """Kinds of vendors that support this extension, besides this server itself."""
    called: Mapping[str, str] = dataclasses.field(default_factory=dict, hash=False)
    """Its name at the kinds of vendors that have another one."""

    @property
    def feature(self) -> str | None:
        """The engine's feature that it uses; None: every engine supports it."""
        may_lack = self.needs_ids or self.ours_with_ids or self.supports or self.only_here or self.vendors
        return self.uses or (self.name if may_lack else None)

    @property
    def control(self) -> str:
        """How its values are entered: as in `Control`, or `number`, `slider`."""
        inside = get_args(self.type)
        bare = inside[0] if NoneType in inside else self.type
        marks = [mark.name for mark in getattr(bare, "__metadata__", ()) if isinstance(mark, Control)]
        if marks:
            return marks[0]
        if bare is bool:
            return "switch"
        return "slider" if bare is float and self.ge is not None and self.le is not None else "number"

    def is_used(self, value: object) -> bool:
        """Whether `value` changes anything, if the field that this one modifies does."""
        return value != self.default and value not in self.neutral


T = TypeVar("T")


def extension(default: T, doc: str, place: str, **further: Any) -> T:
    """The default of a dataclass's field, with its description; `further`: attributes of `RequestField`."""
    described = RequestField(default=default, doc=doc, place=place, **further)
    return dataclasses.field(default=default, metadata={"described": described})


def documented(default: T, doc: str, place: str, **further: Any) -> T:
    """The same for a field that the hosted API has."""
    return extension(default, doc, place, documented=True, **further)


def fields_of(declaring: Any) -> tuple[RequestField, ...]:
    """The described fields of a dataclass, in the order of their declaration."""
    return tuple(
        dataclasses.replace(one.metadata["described"], name=one.name, type=one.type)
        for one in dataclasses.fields(declaring)
        if "described" in one.metadata
    )
