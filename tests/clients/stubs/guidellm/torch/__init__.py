"""Just enough of a `torch` for GuideLLM to read its prompts from a file; it needs none of the rest."""

from . import nn as nn
from . import utils as utils


class Generator:
    def manual_seed(self, seed: int) -> "Generator":
        return self


class Tensor:
    """A type that nothing is an instance of."""
