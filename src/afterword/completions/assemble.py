"""Folds engine events into an answer. Streamed and plain answers are made of the same `Delta`s.

Knows echo, best_of and usage; knows no JSON.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from afterword.completions.request import Completion
from afterword.engine.events import Event, PromptScores, SampledToken


@dataclass(frozen=True, slots=True)
class Echo:
    """The prompt in front of a choice: its tokens with their scores, listed before any sampled token."""

    tokens: tuple[int, ...]
    offsets: tuple[int, ...]
    scores: PromptScores


@dataclass(frozen=True, slots=True)
class Delta:
    """What one event adds to one choice."""

    index: int
    """Number of the choice: prompt number x n + k (SPEC section 3)."""
    text: str
    echo: Echo | None
    """Set on the first delta of a choice if the request echoes the prompt with log-probabilities."""
    tokens: tuple[SampledToken, ...]
    finish_reason: str | None
    prompt_scores: Echo | None = None
    """Set on the first delta of a choice if the request has `prompt_logprobs`."""


@dataclass(frozen=True, slots=True)
class Usage:
    """Token counts of the whole request (SPEC section 3)."""

    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int


class Assembler:
    """The growing answer of one request. Not thread-safe; lives with the request."""

    def __init__(self, completion: Completion) -> None:
        raise NotImplementedError

    def fold(self, prompt_index: int, event: Event) -> Iterator[Delta]:
        """Take one event; yield the deltas it makes final (none while best_of still compares candidates)."""
        raise NotImplementedError

    def usage(self) -> Usage:
        """Counts so far; final once every candidate has finished."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Choice:
    """One whole choice: the sum of its deltas."""

    index: int
    text: str
    echo: Echo | None
    tokens: tuple[SampledToken, ...]
    finish_reason: str
    prompt_scores: Echo | None


def join(deltas: list[Delta]) -> list[Choice]:
    """The plain answer: all deltas of a finished request as choices in index order."""
    raise NotImplementedError
