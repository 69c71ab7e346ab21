"""Beam search: which beams of a prompt go on, which have ended, and when it is over (docs/rules.md#beam-search).

The definition is that of Hugging Face transformers (`GenerationMixin._beam_search`, 4.50). Each step ranks the tokens
that may follow the beams by the sum of log-probabilities, keeps the best that have not ended as beams, and remembers
those that have ended and are among the best, by that sum divided by a power of the length.

Follows from the rows of logits alone. Knows no model; one thread.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from afterword.engine.candidate import Candidate
from afterword.engine.events import Chunk, Event, Finished
from afterword.engine.request import GenerationRequest
from afterword.engine.sampling.bias import EveryTokenBanned
from afterword.engine.sampling.logprobs import LogSoftmax
from afterword.engine.sampling.sampler import Sampler


@dataclass(frozen=True, slots=True)
class Told:
    """What is to be told of a beam, the latest last."""

    before: "Told | None"
    events: list[Event]

    def all(self) -> list[Event]:
        """Everything in order."""
        parts: list[list[Event]] = []
        told: Told | None = self
        while told is not None:
            parts.append(told.events)
            told = told.before
        return [event for events in reversed(parts) for event in events]


@dataclass(slots=True, eq=False)
class Beam:
    """One beginning of an answer."""

    candidate: Candidate
    sampler: Sampler
    total: float = 0.0
    """Sum of the scores of its tokens."""
    n_scored: int = 0
    """How many those are, an end included."""
    token: int = -1
    """The last of them."""
    told: Told | None = None


class Extension(NamedTuple):
    """One token after a beam. The best of them comes first where they are sorted."""

    loss: float
    """Minus the sum of scores that the beam then has."""
    beam: int
    """Its number."""
    token: int
    logprob: float
    top: tuple[tuple[int, float], ...]
    named: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Found:
    """An answer."""

    score: float
    candidate: Candidate
    told: Told


class BeamSearch:
    """The search of one request."""

    def __init__(self, request: GenerationRequest, log_softmax: LogSoftmax, first: Beam) -> None:
        """`first`: the beam that has no token yet."""
        assert request.beams is not None
        self._request = request
        self._rules = request.beams
        self._log_softmax = log_softmax
        self._width = request.n_candidates
        # As many that do not end as there are beams are among so many, if only the end tokens end them.
        self._n_considered = max(2, 1 + len(request.end_ids)) * self._width
        self._found: list[Found] = []
        """Best first, at most `width`."""
        self._refusal: EveryTokenBanned | None = None
        self._nothing = first.candidate.fork()
        self.beams = [first]
        """Those that go on, best first; none once the search is over."""

    def extensions(self, number: int, row: NDArray[np.float32]) -> list[Extension]:
        """The likeliest tokens after a beam, given the (n_vocab,) raw logits; none if it may not go on.

        Raises what `Sampler.sample` does, but for a beam that has no token left.
        """
        beam = self.beams[number]
        lse = self._log_softmax.lse(row)
        try:
            tokens, scores = beam.sampler.likeliest(row, beam.candidate.n_tokens, self._n_considered)
        except EveryTokenBanned as refusal:
            self._refusal = refusal
            return []
        k = self._request.logprobs
        top = () if k is None else self._log_softmax.top(row, lse, k)
        named = () if k is None else self._log_softmax.named(row, lse, self._request.named_ids)
        return [
            Extension(lse - score - beam.total, number, token, self._log_softmax.logprob(row, lse, token), top, named)
            for token, score in zip(tokens.tolist(), scores.tolist(), strict=True)
        ]

    def choose(self, extensions: Sequence[Extension]) -> list[int]:
        """Replace the beams by the best of all their extensions: for each that goes on, the number of its parent.

        Raises `EveryTokenBanned` if there is none, and nothing was found.
        """
        if not extensions and not self._found:
            assert self._refusal is not None
            raise self._refusal
        beams: list[Beam] = []
        parents: list[int] = []
        for rank, extension in enumerate(sorted(extensions)[: self._n_considered]):
            beam = self._extended(extension)
            if not beam.candidate.finished and len(beams) < self._width:
                beams.append(beam)
                parents.append(extension.beam)
            elif beam.candidate.finished and rank < self._width:
                self._keep(beam)
        self._give_samplers(beams, parents)
        self.beams = beams
        if self._is_over():
            self.beams = []
        return parents if self.beams else []

    def answers(self) -> Iterator[tuple[Candidate, list[Event]]]:
        """What was found, best first: a finished candidate and its events. Empty ones, if it is less than the width."""
        for index in range(self._width):
            if index < len(self._found):
                found = self._found[index]
                yield found.candidate, [_of(index, event) for event in found.told.all()]
            else:
                nothing = self._nothing.fork()
                yield nothing, [_of(index, event) for event in nothing.close("stop")]

    def _extended(self, extension: Extension) -> Beam:
        """The beam with the token; its sampler is still its parent's."""
        parent = self.beams[extension.beam]
        candidate = parent.candidate.fork()
        told = Told(parent.told, candidate.accept(extension.token, extension.logprob, extension.top, extension.named))
        return Beam(candidate, parent.sampler, -extension.loss, parent.n_scored + 1, extension.token, told)

    def _keep(self, beam: Beam) -> None:
        """Remember one that has ended."""
        assert beam.told is not None
        score = _score(beam.total, beam.n_scored, self._rules.length_penalty)
        self._found.append(Found(score, beam.candidate, beam.told))
        self._found.sort(key=lambda found: -found.score)
        del self._found[self._width :]

    def _give_samplers(self, beams: Sequence[Beam], parents: Sequence[int]) -> None:
        """Have each beam's sampler be its own: the last to be given takes that of the parent, others a copy."""
        for number in reversed(range(len(beams))):
            beam = beams[number]
            if parents[number] in parents[:number]:
                beam.sampler = beam.sampler.fork()
            beam.sampler.accept(beam.token)

    def _is_over(self) -> bool:
        if not self.beams:
            return True
        if len(self._found) < self._width:
            return False
        if self._rules.early_stopping is True:
            return True
        best, power = self.beams[0], self._rules.length_penalty
        longest = self._rules.early_stopping == "never" and power > 0
        possible = _score(best.total, self._request.max_tokens if longest else best.n_scored, power)
        return self._found[-1].score >= possible


def _score(total: float, length: int, power: float) -> float:
    return total / math.pow(length, power)


def _of(index: int, event: Event) -> Event:
    """The event with another candidate's index."""
    assert isinstance(event, Chunk | Finished)
    return replace(event, index=index)
