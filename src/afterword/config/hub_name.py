"""How a model at a model hub is written: `hf:organisation/repository:quantisation`."""

import re
from dataclasses import dataclass
from typing import Self

from typing_extensions import override

from afterword.errors import ConfigurationError
from afterword.gguf_parts import SUFFIX, model_name
from afterword.text.brief import brief

HUB = "hf:"
"""What tells such a name from a path."""

NAME = re.compile(r"([\w.-]+/[\w.-]+)(?::([\w./-]+))?", re.ASCII)


@dataclass(frozen=True, slots=True)
class HubModel:
    """One model of a repository, which may have it in several quantisations."""

    repository: str
    """`organisation/name`."""
    choice: str | None
    """A quantisation such as Q4_K_M, or the path of a file in the repository; None: what suits most."""

    @classmethod
    def parsed(cls, text: str) -> Self:
        """From `organisation/repository[:quantisation]`, `hf:` in front or not. Raises `ConfigurationError`."""
        found = NAME.fullmatch(text.removeprefix(HUB))
        if found is None:
            raise ConfigurationError(
                f"{brief(text)!r} is no model of a hub: it must be organisation/repository, mostly with a quantisation "
                "behind it, such as ggml-org/gemma-3-270m-it-GGUF:Q4_K_M."
            )
        return cls(found[1], found[2])

    @property
    def name(self) -> str:
        """What requests call it: its repository without organisation and `-GGUF`, and its quantisation."""
        if self.choice is not None and self.choice.endswith(SUFFIX):
            return model_name(self.choice.rpartition("/")[2])
        base = re.sub("[-_.]gguf$", "", self.repository.rpartition("/")[2], flags=re.IGNORECASE)
        return base if self.choice is None else f"{base}:{self.choice}"

    @override
    def __str__(self) -> str:
        return self.repository if self.choice is None else f"{self.repository}:{self.choice}"
