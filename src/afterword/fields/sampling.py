"""How the next token is drawn from the logits: the fields that a sampler gets, and no others.

Those that most clients send are here, those of writers' programs in `shaping.py` and `repeats.py`. The order of
application is docs/rules.md#sampling-order.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from afterword.fields.bans import Ids
from afterword.fields.field import RequestField, documented, extension, fields_of
from afterword.fields.order import STEPS
from afterword.fields.repeats import REPEAT_FIELDS, Repeats
from afterword.fields.shapes import LogitBias
from afterword.fields.shaping import SHAPING_FIELDS, Shaping

GREEDY_BELOW: Final = 1e-5
"""Temperatures under this are greedy (docs/rules.md#greedy): dividing by them would overflow."""

_BOTH = ("llama-server", "vllm")
_PENALTY: Final = {"ge": -2, "le": 2, "uses": "penalties", "supports": ("penalties",)}


@dataclass(frozen=True, slots=True)
class Sampling:
    """Every field is set; the neutral value is given."""

    temperature: float = documented(1.0, "Divides the logits; 0 takes the likeliest token.", "Sampling", ge=0, le=2)
    top_p: float = documented(
        1.0, "Sample from the likeliest tokens that have this mass together.", "Sampling", draws=True, ge=0, le=1
    )
    top_k: int = extension(
        0,
        "Sample from the k likeliest tokens; 0 and -1: from all.",
        "Sampling",
        draws=True,
        ge=-1,
        neutral=(-1,),
        vendors=_BOTH,
    )
    min_p: float = extension(
        0.0,
        "Drop tokens less likely than this part of the likeliest.",
        "Sampling",
        draws=True,
        ge=0,
        le=1,
        vendors=_BOTH,
    )
    frequency_penalty: float = documented(0.0, "Per occurrence in the completion so far.", "Repetition", **_PENALTY)
    presence_penalty: float = documented(0.0, "Once for any token of the completion so far.", "Repetition", **_PENALTY)
    repetition_penalty: float = extension(
        1.0,
        "Divides the logits of tokens seen in prompt or completion; 1 is off.",
        "Repetition",
        gt=0,
        aliases=("repeat_penalty", "rep_pen"),
        vendors=_BOTH,
        called={"llama-server": "repeat_penalty"},
    )
    logit_bias: LogitBias = documented(
        (),
        "Added to the logits of these token ids; -100 bans, 100 forces.",
        "Single tokens",
        needs_ids=True,
        supports=("logit_bias",),
    )
    allowed_token_ids: Ids = extension(
        (),
        "Sample these tokens only.",
        "Single tokens",
        aliases=("allowed_tokens",),
        needs_ids=True,
        vendors=("vllm",),
    )

    shaping: Shaping = field(default_factory=Shaping)
    repeats: Repeats = field(default_factory=Repeats)

    @property
    def is_greedy(self) -> bool:
        """Whether any of the fields leaves only the likeliest token, the lowest id on a tie."""
        return self.temperature < GREEDY_BELOW or self.top_p <= 0 or self.top_k == 1 or self.min_p >= 1

    def plain(self) -> "Sampling":
        """The same, with greedy sampling expressed by temperature 0 alone, which every server supports."""
        return replace(self, temperature=0.0, shaping=Shaping(), **_NO_DRAW) if self.is_greedy else self

    def applied(self) -> "Sampling":
        """The same in fewer words: samplers that its order leaves out are off, and a temperature's range has one form.

        Raises `ValueError` for a range whose lower end is above the upper one.
        """
        shaping, mine = self.shaping, dict[str, Any]()
        if shaping.dynamic_temperature:
            low, high = shaping.dynatemp_low, shaping.dynatemp_high
            if low > high:
                raise ValueError(f"'dynatemp_low' ({low}) must not be above 'dynatemp_high' ({high}).")
            mine["temperature"] = (low + high) / 2
            shaping = replace(shaping, dynamic_temperature=False, dynatemp_range=(high - low) / 2)
        order = shaping.order
        left_out = [step.off for name, step in STEPS.items() if name not in order]
        applied = replace(self, shaping=shaping, **mine)
        if not left_out:
            return applied
        values = values_of_sampling(applied)
        return sampling_of(values | {name: value for off in left_out for name, value in off.items()})

    @property
    def active(self) -> list[str]:
        """Names of the samplers that change something, in the order of the request."""
        values = values_of_sampling(self)
        return [name for name in self.shaping.order if any(values[one] != off for one, off in STEPS[name].off.items())]


_COMMON_FIELDS = fields_of(Sampling)

SAMPLING_FIELDS = (*_COMMON_FIELDS, *SHAPING_FIELDS, *REPEAT_FIELDS)

_BY_NAME = {one.name: one for one in SAMPLING_FIELDS}


def modifies_something(one: RequestField, values: Mapping[str, Any]) -> bool:
    """Whether the field that `one` modifies is used; also True for one that modifies no other."""
    return one.modifies is None or _BY_NAME[one.modifies].is_used(values[one.modifies])


def values_of_sampling(sampling: Sampling) -> dict[str, Any]:
    """The values of all its fields by name."""
    holders = ((sampling, _COMMON_FIELDS), (sampling.shaping, SHAPING_FIELDS), (sampling.repeats, REPEAT_FIELDS))
    return {one.name: getattr(holder, one.name) for holder, fields in holders for one in fields}


def sampling_of(values: Mapping[str, Any]) -> Sampling:
    """Of the values of all its fields by name."""
    common, shaping, repeats = (
        {one.name: values[one.name] for one in fields} for fields in (_COMMON_FIELDS, SHAPING_FIELDS, REPEAT_FIELDS)
    )
    return Sampling(**common, shaping=Shaping(**shaping), repeats=Repeats(**repeats))


_NO_DRAW = {one.name: one.default for one in _COMMON_FIELDS if one.draws}
