"""In which order samplers are applied: their names, those of other servers for them, and lists of them in a request."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Final

from pydantic import PlainValidator, WithJsonSchema

from afterword.fields.field import Control
from afterword.fields.shapes import named, refusal, shown


@dataclass(frozen=True, slots=True)
class Step:
    """One sampler."""

    off: Mapping[str, float]
    """The values of its fields at which it changes nothing."""
    others: tuple[str, ...] = ()
    """Its names at other servers."""
    llama_server: str | None = None
    """Its name there; None: it has none like it."""


STEPS: Final[Mapping[str, Step]] = {
    "penalties": Step(
        {"repetition_penalty": 1.0, "frequency_penalty": 0.0, "presence_penalty": 0.0},
        ("repetition_penalty", "presence_penalty", "frequency_penalty"),
        "penalties",
    ),
    "dry": Step({"dry_multiplier": 0.0}, (), "dry"),
    "temperature": Step(
        {"temperature": 1.0, "dynatemp_range": 0.0}, ("temp", "temp_ext", "dynamic_temperature"), "temperature"
    ),
    "smoothing": Step({"smoothing_factor": 0.0}, ("quadratic_sampling",)),
    "top_n_sigma": Step({"top_n_sigma": 0.0}, ("nsigma", "top_nsigma"), "top_n_sigma"),
    "epsilon_cutoff": Step({"epsilon_cutoff": 0.0}),
    "eta_cutoff": Step({"eta_cutoff": 0.0}),
    "min_p": Step({"min_p": 0.0}, (), "min_p"),
    "top_a": Step({"top_a": 0.0}),
    "top_k": Step({"top_k": 0}, (), "top_k"),
    "tfs": Step({"tfs": 1.0}, ("tfs_z",)),
    "typical_p": Step({"typical_p": 1.0}, ("typ_p", "typical"), "typ_p"),
    "top_p": Step({"top_p": 1.0}, (), "top_p"),
    "xtc": Step({"xtc_probability": 0.0}, (), "xtc"),
    "mirostat": Step({"mirostat": 0}),
    "adaptive_p": Step({"adaptive_target": -1.0}, ("adaptive-p",), "adaptive_p"),
}
"""Every sampler by its name, in the order in which they are applied by default."""

DEFAULT_ORDER: Final = tuple(STEPS)

FIRST: Final = ("penalties", "dry")
"""Always ahead of the others: they change logits, not a set of tokens."""

LATE_TEMPERATURE: Final = ("temperature", "smoothing")
"""What `temperature_last` moves to the end."""

_BY_NAME: Final = {also: (name,) for name, step in STEPS.items() for also in (name, *step.others)}

_WITHOUT_A_PLACE: Final = ("no_repeat_ngram", "encoder_repetition_penalty", "infill", "")
"""Bans, and samplers that are refused where they are used: their place in a list changes nothing."""

_NUMBERED: Final = (
    ("top_k",),
    ("min_p", "top_a"),
    ("top_p",),
    ("tfs",),
    ("typical_p",),
    ("temperature", "smoothing"),
    ("penalties",),
)
"""KoboldCpp's samplers by their numbers in `sampler_order`."""


def moved_last(order: tuple[str, ...], names: tuple[str, ...]) -> tuple[str, ...]:
    """`order` with those of `names` that are in it at the end."""
    return (*(name for name in order if name not in names), *(name for name in order if name in names))


def with_unnamed_first(order: tuple[str, ...]) -> tuple[str, ...]:
    """All samplers: those that `order` does not name in their default order, then it."""
    named_first = [name for name in order if name in FIRST]
    unnamed = [name for name in DEFAULT_ORDER if name not in order]
    first = [name for name in FIRST if name in unnamed or name in named_first]
    return (*first, *(name for name in (*unnamed, *order) if name not in FIRST))


def _order(value: object) -> tuple[str, ...]:
    """Names, numbers of KoboldCpp, or names in one string, a line each, as our names. Each counts where it is first."""
    items = value.replace(";", "\n").split("\n") if isinstance(value, str) else value
    if not isinstance(items, list | tuple):
        raise refusal("invalid_type", f"must be an array of the names of samplers, not {named(value)}.")
    order = tuple(dict.fromkeys(name for item in items for name in _names(item)))
    before = order[: _last_of(order, FIRST)]
    late = [name for name in before if name not in FIRST]
    if late:
        raise refusal(
            "invalid_value",
            f"must name 'penalties' and 'dry' before all others, which work on what they leave, not after '{late[0]}'.",
        )
    return order


def _last_of(order: tuple[str, ...], names: tuple[str, ...]) -> int:
    """Place of the last of `names` in `order`, 0 if there is none."""
    return max((place for place, name in enumerate(order) if name in names), default=0)


def _names(item: object) -> tuple[str, ...]:
    match item:
        case bool():
            pass
        case int() if 0 <= item < len(_NUMBERED):
            return _NUMBERED[item]
        case str():
            name = item.strip().lower()
            if name in _WITHOUT_A_PLACE:
                return ()
            if name in _BY_NAME:
                return _BY_NAME[name]
        case _:
            pass
    known = ", ".join(DEFAULT_ORDER)
    raise refusal("invalid_value", f"has {shown(item)}, which is the name of no sampler; there are {known}.")


Order = Annotated[
    tuple[str, ...],
    PlainValidator(_order),
    WithJsonSchema({"type": "array", "items": {"type": "string"}}),
    Control("texts"),
]
