"""In which order samplers are applied: their names, those of other servers for them, and lists of them in a request."""

from typing import Annotated, Final

from pydantic import PlainValidator, WithJsonSchema

from afterword.fields.field import Control
from afterword.fields.shapes import named, refusal, shown

FIRST: Final = ("penalties", "dry")
"""Always ahead of the others: they change logits, not a set of tokens."""

LATE_TEMPERATURE: Final = ("temperature", "smoothing")
"""What `temperature_last` moves to the end."""

DEFAULT_ORDER: Final = (
    *FIRST,
    "temperature",
    "smoothing",
    "top_n_sigma",
    "epsilon_cutoff",
    "eta_cutoff",
    "min_p",
    "top_a",
    "top_k",
    "tfs",
    "typical_p",
    "top_p",
    "xtc",
    "mirostat",
    "adaptive_p",
)

_ALSO: Final = {
    "temp": ("temperature",),
    "temp_ext": ("temperature",),
    "dynamic_temperature": ("temperature",),
    "quadratic_sampling": ("smoothing",),
    "typ_p": ("typical_p",),
    "typical": ("typical_p",),
    "tfs_z": ("tfs",),
    "nsigma": ("top_n_sigma",),
    "top_nsigma": ("top_n_sigma",),
    "adaptive-p": ("adaptive_p",),
    "repetition_penalty": ("penalties",),
    "presence_penalty": ("penalties",),
    "frequency_penalty": ("penalties",),
    # Bans and samplers that are refused where they are used; their place in a list changes nothing.
    "no_repeat_ngram": (),
    "encoder_repetition_penalty": (),
    "infill": (),
}

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
            if name in DEFAULT_ORDER:
                return (name,)
            if name in _ALSO or name == "":
                return _ALSO.get(name, ())
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
