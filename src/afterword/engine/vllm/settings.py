"""What the vLLM engine is told when it loads a model. Knows no configuration file and no vLLM."""

from collections.abc import Mapping
from dataclasses import dataclass, field

NOT_REPRODUCIBLE = (
    "vLLM computes a sequence together with whatever else is running, and its kernels round differently for other "
    "batches: the same seed mostly gives the same text, never for certain"
)
"""Why docs/rules.md#same-bytes is not promised; shown on the model's card."""


@dataclass(frozen=True, slots=True)
class VllmSettings:
    """One model and what vLLM is to be told about it."""

    model: str
    """A directory in the Hugging Face format, or a name that vLLM finds in its cache or on the hub."""
    context: int | None
    """Tokens of prompt and completion together; None: what `options` or the model says."""
    parallel: int
    """Sequences that run at once, unless `options` hold `max_num_seqs`."""
    max_waiting: int
    """Sequences beyond those that run before `Overloaded` is raised."""
    options: Mapping[str, object] = field(default_factory=dict)
    """Further arguments of vLLM's engine by their own names, such as `tensor_parallel_size` or `dtype`."""
