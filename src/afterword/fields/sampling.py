"""How the next token is drawn from the logits: the fields that a sampler gets, and no others.

Order of application: bias and penalties, temperature, min_p, top_k, top_p (docs/rules.md#sampling-order).
"""

from dataclasses import dataclass, replace
from typing import Final

from afterword.fields.field import documented, extension, fields_of
from afterword.fields.shapes import LogitBias

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

    @property
    def is_greedy(self) -> bool:
        """Whether any of the fields leaves only the likeliest token, the lowest id on a tie."""
        return self.temperature < GREEDY_BELOW or self.top_p <= 0 or self.top_k == 1 or self.min_p >= 1

    def plain(self) -> "Sampling":
        """The same, with greedy sampling expressed by temperature 0 alone, which every server supports."""
        return replace(self, temperature=0.0, **_NO_DRAW) if self.is_greedy else self


SAMPLING_FIELDS = fields_of(Sampling)

_NO_DRAW = {field.name: field.default for field in SAMPLING_FIELDS if field.draws}
