"""How the distribution is shaped before a token is drawn: the samplers of writers' programs, beside `sampling.py`'s."""

from dataclasses import dataclass
from typing import Annotated, Final

from pydantic import AfterValidator

from afterword.fields.field import extension, fields_of
from afterword.fields.order import DEFAULT_ORDER, LATE_TEMPERATURE, Order, moved_last, with_unnamed_first

_GROUP: Final = "More samplers"
_LLAMA: Final = ("llama-server",)
_OURS: Final = ("afterword",)


OffBelowZero = Annotated[float, AfterValidator(lambda value: max(value, 0.0))]
"""A number that is 0 where it is negative."""

TargetOrNone = Annotated[float, AfterValidator(lambda value: value if value >= 0 else -1.0)]
"""A number that is -1 where it is negative."""


@dataclass(frozen=True, slots=True)
class Shaping:
    """Every field is set; the neutral value is given."""

    typical_p: float = extension(
        1.0,
        "Sample from the tokens whose surprise is nearest to the expected one and that have this mass together.",
        _GROUP,
        draws=True,
        gt=0,
        le=1,
        aliases=("typical", "typ_p"),
        vendors=_LLAMA,
    )
    top_n_sigma: OffBelowZero = extension(
        0.0,
        "Drop tokens whose logit is more than this many standard deviations below the highest; 0 and -1: none.",
        _GROUP,
        draws=True,
        aliases=("nsigma", "top_nsigma"),
        vendors=_LLAMA,
    )
    top_a: float = extension(
        0.0,
        "Drop tokens less likely than this times the square of the likeliest.",
        _GROUP,
        draws=True,
        ge=0,
        le=1,
        vendors=_OURS,
    )
    tfs: float = extension(
        1.0,
        "Tail-free: cut the likeliest tokens where this part of the curvature of their probabilities lies before.",
        _GROUP,
        draws=True,
        gt=0,
        le=1,
        aliases=("tfs_z",),
        vendors=_OURS,
    )
    epsilon_cutoff: float = extension(
        0.0,
        "Drop tokens less likely than this many ten-thousandths.",
        _GROUP,
        draws=True,
        ge=0,
        le=10000,
        vendors=_OURS,
    )
    eta_cutoff: float = extension(
        0.0,
        "The same with a threshold that falls with the entropy, in ten-thousandths.",
        _GROUP,
        draws=True,
        ge=0,
        le=10000,
        vendors=_OURS,
    )
    xtc_probability: float = extension(
        0.0,
        "How often all but the least likely of the tokens above `xtc_threshold` are dropped.",
        _GROUP,
        draws=True,
        ge=0,
        le=1,
        vendors=_LLAMA,
    )
    xtc_threshold: float = extension(
        0.1,
        "Above 0.5 nothing is dropped.",
        _GROUP,
        draws=True,
        ge=0,
        le=1,
        vendors=_LLAMA,
        modifies="xtc_probability",
        uses="xtc_probability",
    )
    dynatemp_range: float = extension(
        0.0,
        "The temperature follows the entropy, within this much of `temperature`.",
        _GROUP,
        draws=True,
        ge=0,
        le=10,
        vendors=_LLAMA,
    )
    dynatemp_exponent: float = extension(
        1.0,
        "How it follows.",
        _GROUP,
        draws=True,
        gt=0,
        le=100,
        vendors=_LLAMA,
        modifies="dynatemp_range",
        uses="dynatemp_range",
    )
    dynamic_temperature: bool = extension(
        False, "The same, by the two ends of the range.", _GROUP, draws=True, vendors=_LLAMA
    )
    dynatemp_low: float = extension(
        1.0,
        "Its lower end.",
        _GROUP,
        draws=True,
        ge=0,
        le=10,
        vendors=_LLAMA,
        modifies="dynamic_temperature",
        uses="dynamic_temperature",
    )
    dynatemp_high: float = extension(
        1.0,
        "Its upper end.",
        _GROUP,
        draws=True,
        ge=0,
        le=10,
        vendors=_LLAMA,
        modifies="dynamic_temperature",
        uses="dynamic_temperature",
    )
    smoothing_factor: float = extension(
        0.0,
        "Logits fall with the square of their distance from the highest, this steeply.",
        _GROUP,
        draws=True,
        ge=0,
        vendors=_OURS,
    )
    smoothing_curve: float = extension(
        1.0,
        "Part of the cube in that: 1 none, 3 all.",
        _GROUP,
        draws=True,
        ge=1,
        le=10,
        modifies="smoothing_factor",
        uses="smoothing_factor",
        vendors=_OURS,
    )
    skew: float = extension(
        0.0,
        "Above 0 less likely tokens are drawn oftener, below 0 likelier ones.",
        _GROUP,
        draws=True,
        ge=-10,
        le=10,
        vendors=_OURS,
    )
    mirostat: int = extension(
        0,
        "Hold the surprise of the text at `mirostat_tau` by Mirostat 1 or 2.",
        _GROUP,
        draws=True,
        ge=0,
        le=2,
        aliases=("mirostat_mode",),
        vendors=_LLAMA,
    )
    mirostat_tau: float = extension(
        5.0, "In bits a token.", _GROUP, draws=True, ge=0, le=100, vendors=_LLAMA, modifies="mirostat", uses="mirostat"
    )
    mirostat_eta: float = extension(
        0.1,
        "How fast it is corrected.",
        _GROUP,
        draws=True,
        ge=0,
        le=1,
        vendors=_LLAMA,
        modifies="mirostat",
        uses="mirostat",
    )
    adaptive_target: TargetOrNone = extension(
        -1.0,
        "Prefer tokens of about this probability, so that it is that of the text on average; below 0: off.",
        _GROUP,
        draws=True,
        le=1,
        vendors=_LLAMA,
    )
    adaptive_decay: float = extension(
        0.9,
        "How long earlier tokens count for that average.",
        _GROUP,
        draws=True,
        ge=0,
        le=0.99,
        vendors=_LLAMA,
        modifies="adaptive_target",
        uses="adaptive_target",
    )
    min_keep: int = extension(
        0, "What drops tokens leaves at least this many.", _GROUP, draws=True, ge=0, neutral=(1,), vendors=_LLAMA
    )
    temperature_last: bool = extension(
        False, "Apply the temperature after what drops tokens.", _GROUP, draws=True, vendors=_LLAMA
    )
    samplers: Order = extension(
        DEFAULT_ORDER,
        "The samplers to apply, by name, in this order; others are not applied.",
        _GROUP,
        draws=True,
        neutral=((),),
        vendors=_LLAMA,
    )
    sampler_priority: Order = extension(
        (),
        "The same, but samplers that are not named come first; also KoboldCpp's numbers.",
        _GROUP,
        draws=True,
        aliases=("sampler_order",),
        vendors=_LLAMA,
    )

    @property
    def order(self) -> tuple[str, ...]:
        """Names of the samplers to apply, in order."""
        order = with_unnamed_first(self.sampler_priority) if self.sampler_priority else self.samplers or DEFAULT_ORDER
        return moved_last(order, LATE_TEMPERATURE) if self.temperature_last else order


SHAPING_FIELDS = fields_of(Shaping)

ORDER_FIELDS = ("samplers", "sampler_priority", "temperature_last")
"""Fields that say the order."""
