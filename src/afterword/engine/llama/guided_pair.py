"""A candidate that is guided by a second prompt: two sequences that go on with the same tokens.

Engine thread only; no model.
"""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from afterword.engine.events import Event
from afterword.engine.llama.draw import draw
from afterword.engine.llama.sequence import Sequence, Team
from afterword.engine.sampling.guidance import guided
from afterword.engine.sampling.logprobs import LogSoftmax


class GuidedPair(Team):
    """A candidate's own sequence, and one after the prompt to steer away from."""

    def __init__(self, own: Sequence, negative: Sequence, scale: float, log_softmax: LogSoftmax) -> None:
        self.members = [own, negative]
        self._scale = scale
        self._log_softmax = log_softmax
        self._rows: dict[bool, NDArray[np.float32]] = {}
        """Each member's, by whether it is the negative one."""

    @override
    def take(self, sequence: Sequence, row: NDArray[np.float32]) -> None:
        # A row is only valid until the next call.
        self._rows[sequence.is_negative] = row.copy()
        sequence.rests = True

    @override
    def go_on(self) -> tuple[list[Event], int]:
        own, negative = self.members
        scores = guided(self._rows[False], self._rows[True], self._scale, self._log_softmax)
        drawn = draw(own, self._rows[False], scores, self._log_softmax)
        self._rows.clear()
        own.rests = negative.rests = False
        return drawn


def guide(own: Sequence, log_softmax: LogSoftmax) -> Sequence:
    """The second sequence of a candidate, which from now on goes on with the first."""
    guidance = own.group.request.guidance
    assert guidance is not None
    demand = replace(own.demand, prompt=np.array(guidance.tokens, dtype=np.int32), score_top=None, last=None)
    negative = Sequence(own.group, own.candidate, own.sampler, demand, sampled=own.sampled, is_negative=True)
    own.team = negative.team = GuidedPair(own, negative, guidance.scale, log_softmax)
    return negative
