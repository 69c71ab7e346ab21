"""A drawn token, and what its candidate makes of it: for every engine that samples by itself."""

from typing import Final

from afterword.engine.candidate import Candidate
from afterword.engine.events import Event
from afterword.engine.sampling.sampler import Sampler

Numbers = tuple[float | None, tuple[tuple[int, float], ...], tuple[float, ...]]
"""Log-probabilities as `Candidate.accept` takes them: a token's own, those of the likeliest, those of named ones."""

NO_NUMBERS: Final[Numbers] = (None, (), ())


def take(candidate: Candidate, sampler: Sampler, sampled: list[int], token: int, numbers: Numbers) -> list[Event]:
    """Have a candidate go on with a token that its sampler has drawn, end with it, or go back.

    The events are as of `Candidate.accept`. `sampled` is kept to be the candidate's tokens; once that has ended nobody
    goes on from them.
    """
    n_before = candidate.n_tokens
    events = candidate.accept(token, *numbers)
    n_now = candidate.n_tokens
    if candidate.finished:
        return events
    if n_now > n_before:
        sampler.accept(token, candidate.n_held)
        sampled.append(token)
    else:
        sampler.take_back(n_now, token, n_before + 1 - n_now)
        del sampled[n_now:]
    return events
