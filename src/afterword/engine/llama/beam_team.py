"""The beams of a search as sequences, each in a slot. Engine thread only; no model."""

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from afterword.engine.beam_search import Beam, BeamSearch, Extension
from afterword.engine.events import Event
from afterword.engine.llama.kv import common_prefix
from afterword.engine.llama.sequence import Sequence, Team
from afterword.engine.sampling.logprobs import LogSoftmax


class BeamTeam(Team):
    """Each member carries a beam, or rests where there are fewer."""

    def __init__(self, search: BeamSearch, members: list[Sequence]) -> None:
        self.members = members
        self._search = search
        self._carriers = members[:1]
        """Who carries which beam of the search."""
        self._extensions: list[Extension] = []
        for resting in members[1:]:
            resting.rests = True

    @override
    def take(self, sequence: Sequence, row: NDArray[np.float32]) -> None:
        self._extensions += self._search.extensions(self._carriers.index(sequence), row)
        sequence.rests = True

    @override
    def go_on(self) -> tuple[list[Event], int]:
        extensions, self._extensions = self._extensions, []
        parents = [self._carriers[number] for number in self._search.choose(extensions)]
        if not parents:
            return self._end()
        free = [member for member in self.members if member not in parents]
        carriers: list[Sequence] = []
        for parent, beam in zip(parents, self._search.beams, strict=True):
            # The first of a parent's beams stays where it is, the others get a copy.
            stays = parent not in carriers
            carrier = parent if stays else _nearest(free, parent)
            carrier.copy_of = None if stays else parent
            _carry(carrier, beam)
            carriers.append(carrier)
        self._carriers = carriers
        return [], 0

    def _end(self) -> tuple[list[Event], int]:
        told: list[Event] = []
        for member, (candidate, events) in zip(self.members, self._search.answers(), strict=True):
            member.candidate = candidate
            told += events
        return told, sum(member.candidate.n_tokens for member in self.members)


def _nearest(free: list[Sequence], parent: Sequence) -> Sequence:
    """Take the one whose slot has most of what the parent's has."""
    assert parent.slot is not None
    held = parent.slot.tokens[: parent.slot.n]

    def n_common(sequence: Sequence) -> int:
        assert sequence.slot is not None
        return common_prefix(sequence.slot.tokens[: sequence.slot.n], held)

    nearest = max(free, key=n_common)
    free.remove(nearest)
    return nearest


def _carry(sequence: Sequence, beam: Beam) -> None:
    sequence.candidate, sequence.sampler, sequence.sampled = beam.candidate, beam.sampler, [beam.token]
    sequence.rests = False


def search_together(members: list[Sequence], log_softmax: LogSoftmax) -> None:
    """Have the sequences of a group search, of which the first has candidate and sampler."""
    first = members[0]
    search = BeamSearch(first.group.request, log_softmax, Beam(first.candidate, first.sampler))
    team = BeamTeam(search, members)
    for member in members:
        member.team = team
