"""Folds engine events into an answer. Streamed and plain answers are made of the same `Delta`s.

Knows echo and best_of; knows no JSON.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import assert_never

from afterword.completions.completion import Completion, Prompt
from afterword.completions.counting import TokenCount, Usage
from afterword.completions.rank import as_found, best_first
from afterword.engine.events import Chunk, Counted, Event, Finished, PromptDone, PromptScores, SampledToken, Started


@dataclass(frozen=True, slots=True)
class Echo:
    """The prompt in front of a choice: its tokens with their scores, listed before any sampled token."""

    tokens: tuple[int, ...]
    offsets: tuple[int, ...]
    scores: PromptScores
    """With as many columns as the answer shows."""


@dataclass(frozen=True, slots=True)
class Delta:
    """What one event adds to one choice."""

    index: int
    """Number of the choice: prompt number x n + k (docs/rules.md#choices)."""
    text: str
    echo: Echo | None
    """Set on the first delta of a choice if the request echoes the prompt with log-probabilities."""
    tokens: tuple[SampledToken, ...]
    finish_reason: str | None
    prompt_scores: Echo | None = None
    """Set on the first delta of a choice if the request has `prompt_logprobs`."""
    prompt_ids: tuple[int, ...] | None = None
    """Set on the first delta of a choice if the request has `return_token_ids`."""


@dataclass(slots=True)
class _Candidate:
    """What has come of one candidate and was not passed on yet."""

    held: Chunk | None = None
    """The chunk of the last allowed token: `length` belongs on the same delta, and follows at once."""
    chunks: list[Chunk] = field(default_factory=list)
    """All chunks so far, kept while best_of compares candidates."""
    finished: Finished | None = None


class Assembler:
    """The growing answer of one request. Not thread-safe; lives with the request."""

    def __init__(self, completion: Completion) -> None:
        self._completion = completion
        self._candidates = [[_Candidate() for _ in range(request.n_candidates)] for request in completion.generations]
        self._count = TokenCount(completion)
        self._compares = completion.best_of > completion.n
        """The best of several candidates are chosen, so that none can be shown before all have ended."""
        self._lists_tokens = completion.shown.lists_tokens

    def fold(self, prompt_index: int, event: Event) -> list[Delta]:
        """Take one event; return the deltas it makes final (none while best_of still compares candidates).

        Only the chunk of a last allowed token waits, for the end that follows it.
        """
        self._count.add(prompt_index, event)
        match event:
            case PromptDone():
                return self._echoes(prompt_index, event.scores)
            case Chunk():
                return self._chunk(prompt_index, event)
            case Finished():
                return self._finished(prompt_index, event)
            case Started() | Counted():
                return []
            case _:
                assert_never(event)

    def usage(self) -> Usage:
        """Counts so far; final once every candidate has finished."""
        return self._count.usage()

    def used(self, *, left: bool) -> Usage:
        """What counts once the request has ended; see `TokenCount.used`."""
        return self._count.used(left=left)

    def count(self, prompt_index: int, event: Event) -> None:
        """Count an event's tokens without making deltas: for events that the reader did not wait for."""
        self._count.add(prompt_index, event)

    def _echoes(self, prompt_index: int, scores: PromptScores | None) -> list[Delta]:
        """The first delta of each choice of a prompt, if the request shows anything of the prompt."""
        shown, prompt, n = self._completion.shown, self._completion.prompts[prompt_index], self._completion.n
        text = prompt.text if shown.echo else ""
        echo = _echo(prompt, scores, shown.logprobs if shown.echo else None)
        prompt_scores = _echo(prompt, scores, shown.prompt_logprobs)
        ids = prompt.tokens if shown.return_token_ids else None
        if text == "" and echo is None and prompt_scores is None and ids is None:
            return []
        return [Delta(prompt_index * n + k, text, echo, (), None, prompt_scores, ids) for k in range(n)]

    def _chunk(self, prompt_index: int, chunk: Chunk) -> list[Delta]:
        candidate = self._candidates[prompt_index][chunk.index]
        if self._compares:
            candidate.chunks.append(chunk)
            return []
        if chunk.n_tokens < self._completion.generations[prompt_index].max_tokens:
            return self._deltas(prompt_index, chunk)
        earlier, candidate.held = candidate.held, chunk
        return [] if earlier is None else self._deltas(prompt_index, earlier)

    def _finished(self, prompt_index: int, finished: Finished) -> list[Delta]:
        candidate = self._candidates[prompt_index][finished.index]
        if self._compares:
            candidate.finished = finished
            return self._ranked(prompt_index)
        held, candidate.held = candidate.held, None
        last = [] if held is None else self._deltas(prompt_index, held)
        if last and finished.reason == "length":
            return [replace(last[0], finish_reason="length")]
        return [*last, Delta(self._choice(prompt_index, finished.index), "", None, (), finished.reason)]

    def _ranked(self, prompt_index: int) -> list[Delta]:
        """The best candidates of a prompt as whole deltas, best first, once all of its candidates have ended."""
        candidates = self._candidates[prompt_index]
        ended = [candidate.finished for candidate in candidates if candidate.finished is not None]
        if len(ended) < len(candidates):
            return []
        deltas = []
        in_order = best_first if self._completion.generations[prompt_index].beams is None else as_found
        for k, finished in enumerate(in_order(ended)[: self._completion.n]):
            chunks = candidates[finished.index].chunks
            text = "".join(chunk.text for chunk in chunks)
            tokens = tuple(token for chunk in chunks for token in chunk.tokens) if self._lists_tokens else ()
            deltas.append(Delta(self._choice(prompt_index, k), text, None, tokens, finished.reason))
        for candidate in candidates:
            candidate.chunks.clear()
        return deltas

    def _deltas(self, prompt_index: int, chunk: Chunk) -> list[Delta]:
        """At most one: a chunk without text and tokens makes none."""
        tokens = chunk.tokens if self._lists_tokens else ()
        if chunk.text == "" and not tokens:
            return []
        return [Delta(self._choice(prompt_index, chunk.index), chunk.text, None, tokens, None)]

    def _choice(self, prompt_index: int, k: int) -> int:
        return prompt_index * self._completion.n + k


def _echo(prompt: Prompt, scores: PromptScores | None, k: int | None) -> Echo | None:
    """The prompt with its k likeliest tokens. The engine computes them once, for the larger k of echo and extension."""
    if k is None:
        return None
    assert scores is not None, "the engine reports the prompt's scores if it was asked for them"
    cut = replace(scores, top_ids=scores.top_ids[:, :k], top_logprobs=scores.top_logprobs[:, :k])
    return Echo(prompt.tokens, prompt.offsets, cut)


@dataclass(frozen=True, slots=True)
class Choice:
    """One whole choice: the sum of its deltas."""

    index: int
    text: str
    echo: Echo | None
    tokens: tuple[SampledToken, ...]
    finish_reason: str
    prompt_scores: Echo | None
    prompt_ids: tuple[int, ...] | None = None


def join(deltas: Iterable[Delta]) -> list[Choice]:
    """The plain answer: all deltas of a finished request as choices in index order."""
    by_choice: dict[int, list[Delta]] = {}
    for delta in deltas:
        by_choice.setdefault(delta.index, []).append(delta)
    return [_whole(by_choice[index]) for index in sorted(by_choice)]


def _whole(deltas: list[Delta]) -> Choice:
    first, reasons = deltas[0], [delta.finish_reason for delta in deltas if delta.finish_reason is not None]
    assert len(reasons) == 1, "a choice ends once"
    return Choice(
        index=first.index,
        text="".join(delta.text for delta in deltas),
        echo=first.echo,
        tokens=tuple(token for delta in deltas for token in delta.tokens),
        finish_reason=reasons[0],
        prompt_scores=first.prompt_scores,
        prompt_ids=first.prompt_ids,
    )
