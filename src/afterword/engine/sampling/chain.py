"""The samplers of a request one after another, in its order, where it has more than the usual few.

The usual are temperature, min_p, top_k and top_p in this order, which `sampler.py` does by itself.
"""

import math
from copy import copy
from typing import Final, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from afterword.engine.sampling.adaptive import AdaptiveP, Mirostat1, Mirostat2
from afterword.engine.sampling.candidates import Candidates
from afterword.engine.sampling.truncation import TRUNCATIONS, exclude_top_choices
from afterword.fields.order import FIRST
from afterword.fields.sampling import Sampling
from afterword.fields.shaping import Shaping


class Chances(Protocol):
    """Random numbers; `RandomStream` in the server."""

    def uniform(self, position: int) -> float:
        """The number in [0, 1) that decides the draw at `position`."""
        ...

    def chance(self, position: int) -> float:
        """Another number in [0, 1) for that position, independent of the first."""
        ...


class Chain:
    """One candidate's samplers. Engine thread only."""

    def __init__(self, sampling: Sampling, random: Chances) -> None:
        self._sampling = sampling
        self._random = random
        self._exponent = math.exp(-sampling.shaping.skew)
        self._remembering = _remembering(sampling.shaping)
        self._names = active_samplers(sampling)

    def fork(self) -> Self:
        """The same for another text that begins alike."""
        other = copy(self)
        other._remembering = {name: copy(sampler) for name, sampler in self._remembering.items()}
        return other

    def draw(self, logits: NDArray[np.float32], position: int) -> int:
        """The next token of an (n_vocab,) row after bias and penalties, of which one is finite."""
        candidates = Candidates.of_row(logits)
        for name in self._names:
            if name in self._remembering:
                self._remembering[name].apply(candidates)
            elif name in TRUNCATIONS:
                TRUNCATIONS[name](candidates, self._sampling)
            elif self._random.chance(position) < self._sampling.shaping.xtc_probability:
                exclude_top_choices(candidates, self._sampling)
        u = self._random.uniform(position)
        if self._exponent == 1.0:
            return candidates.draw(u)
        # The distribution function, in order of likelihood, to the power of exp(skew).
        return candidates.draw_ranked(u**self._exponent)

    def accept(self, token: int) -> None:
        """The token that was drawn last is the next of the text."""
        for sampler in self._remembering.values():
            sampler.accept(token)


def needs_chain(sampling: Sampling) -> bool:
    """Whether a request has more than temperature, min_p, top_k and top_p, or them in another order."""
    active, shaping = active_samplers(sampling), sampling.shaping
    is_usual = active == [name for name in _COMMON if name in active]
    return not is_usual or shaping.skew != 0 or shaping.dynatemp_range > 0 or (shaping.min_keep > 1 and active != [])


def active_samplers(sampling: Sampling) -> list[str]:
    """Names of the samplers after the penalties that change something, in the order of the request."""
    return [name for name in sampling.active if name not in FIRST]


_COMMON: Final = ("temperature", "min_p", "top_k", "top_p")
"""What `sampler.py` does by itself, in its order."""


def _remembering(shaping: Shaping) -> dict[str, Mirostat1 | Mirostat2 | AdaptiveP]:
    samplers: dict[str, Mirostat1 | Mirostat2 | AdaptiveP] = {}
    if shaping.mirostat:
        kind = Mirostat1 if shaping.mirostat == 1 else Mirostat2
        samplers["mirostat"] = kind(shaping.mirostat_tau, shaping.mirostat_eta)
    if shaping.adaptive_target >= 0:
        samplers["adaptive_p"] = AdaptiveP(shaping.adaptive_target, shaping.adaptive_decay)
    return samplers
