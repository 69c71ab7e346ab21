"""One field of a completion request, described once. Knows no request and no model.

A frozen dataclass declares its fields with `documented` and `extension`; `fields_of` reads the descriptions back. From
them follow the shape of the body, the command line's options, the playground's form, docs/fields.md, what vendors are
told, and what is refused where a model lacks it.
"""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from types import NoneType
from typing import Any, Literal, TypeVar, get_args

GROUPS = ("Length and choices", "Sampling", "Repetition", "Single tokens", "Probabilities", "Prompt and text")
"""Parts of the playground's form, in their order."""

Kind = Literal["sampling", "answer", "neutral"]
"""What a field changes: which tokens come, only what is shown of them, or neither."""


@dataclass(frozen=True, slots=True)
class Control:
    """Beside a type with a shape of its own: how its values are entered by hand.

    `text`, `texts`, `numbers` or `bias`; numbers and booleans need none.
    """

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestField:
    """One row of the table. Defaults of rows mean "nothing special"."""

    name: str = ""
    type: Any = None
    """What a value becomes, as pydantic reads it."""
    default: Any
    doc: str
    """One sentence."""
    place: str
    """One of `GROUPS`, or how the playground's page sets the field by itself."""
    kind: Kind = "sampling"
    documented: bool = False
    """The hosted API has it; all others are extensions."""
    ge: float | None = None
    gt: float | None = None
    le: float | None = None
    aliases: tuple[str, ...] = ()
    """What else clients call it; of several names the first one given counts, its own before these."""
    neutral: tuple[object, ...] = ()
    """Values that ask for nothing, beside the default."""
    draws: bool = False
    """Takes part in the draw alone, so that it does not matter where one token is left to draw."""
    uses: str | None = None
    """The feature of an engine that it makes use of, if that is not called like the field."""
    needs_ids: bool = False
    """It is said in token ids, or found out from them: only with the model's own tokenizer."""
    ours_with_ids: bool = False
    """With the model's own tokenizer this server does it by itself, whatever a vendor can do."""
    supports: tuple[str, ...] = ()
    """Switches of a vendor's `supports` that must all be on."""
    vendors: tuple[str, ...] = ()
    """Kinds of vendors that honour this extension, beside this server itself."""
    called: Mapping[str, str] = dataclasses.field(default_factory=dict, hash=False)
    """What kinds of vendors call it that have another name for it."""

    @property
    def feature(self) -> str | None:
        """The feature of an engine that it makes use of; None: every engine can do it."""
        may_lack = self.needs_ids or self.ours_with_ids or self.supports or self.vendors
        return self.uses or (self.name if may_lack else None)

    @property
    def control(self) -> str:
        """How its values are entered: see `Control`; or `switch`, `number`, `slider`."""
        inside = get_args(self.type)
        bare = inside[0] if NoneType in inside else self.type
        marks = [mark.name for mark in getattr(bare, "__metadata__", ()) if isinstance(mark, Control)]
        if marks:
            return marks[0]
        if bare is bool:
            return "switch"
        return "slider" if bare is float and self.ge is not None and self.le is not None else "number"

    def asks(self, value: object) -> bool:
        """Whether `value` asks for anything."""
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
