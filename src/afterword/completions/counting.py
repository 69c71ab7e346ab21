"""What a request has used, from the events of its engine. Knows neither text nor JSON.

Tokens are counted where they are known: by the model's own tokenizer, or by the server behind a model at the end of its
answer. What neither has counted is an estimate (docs/rules.md#estimates).
"""

from dataclasses import dataclass

from afterword.completions.completion import Completion
from afterword.engine.events import Counted, Event, Finished, PromptDone, Started


@dataclass(frozen=True, slots=True)
class Usage:
    """Token counts of a request (docs/rules.md#usage)."""

    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int
    estimated: bool = False
    """Some of them, said where a request has ended."""
    accepted_prediction_tokens: int = 0
    """Predicted tokens that were sampled."""
    rejected_prediction_tokens: int = 0
    """Predicted tokens that were not."""


NOTHING_USED = Usage(prompt_tokens=0, completion_tokens=0, cached_tokens=0)


@dataclass(slots=True)
class _Prompt:
    """What is known of one prompt."""

    n_tokens: int
    sampled: list[int]
    """Completion tokens so far, by candidate."""
    n_unfinished: int
    """Candidates that have not ended."""
    n_elsewhere: int = 0
    """Tokens at its beginning that are counted with another prompt."""
    n_completion: int = 0
    """Completion tokens that count."""
    started: bool = False
    """An engine is at work on it."""
    heard: bool = False
    """Something came of it: it was read."""
    prompt_told: bool = False
    completion_told: bool = False
    """An upstream has counted them; completion tokens also for those that are still to come."""

    @property
    def known(self) -> bool:
        """An upstream has counted everything, and there is nothing more."""
        return self.prompt_told and self.completion_told and self.n_unfinished == 0


class TokenCount:
    """The count of one request. Not thread-safe."""

    def __init__(self, completion: Completion) -> None:
        self._exact = completion.exact_tokens
        self._as_said = completion.counted is not None
        self._prompts = [
            # Where nothing is sampled, nobody need say how much that was.
            _Prompt(
                n_tokens,
                [0] * request.n_candidates,
                request.n_candidates,
                n_elsewhere=max(0, len(request.prompt) - n_tokens) if self._as_said else 0,
                completion_told=request.max_tokens == 0,
            )
            for n_tokens, request in zip(completion.n_prompt_tokens, completion.generations, strict=True)
        ]
        self._n_prompt, self._n_completion, self._n_cached = sum(completion.n_prompt_tokens), 0, 0
        self._n_accepted = self._n_rejected = 0

    def add(self, prompt_index: int, event: Event) -> None:
        """Take one event of a prompt."""
        prompt = self._prompts[prompt_index]
        prompt.started = True
        if isinstance(event, Started):
            return
        prompt.heard = True
        if isinstance(event, PromptDone):
            self._n_cached += max(0, event.n_cached - prompt.n_elsewhere)
            return
        if isinstance(event, Counted):
            self._recount(prompt, event)
            return
        n_more = event.n_tokens - prompt.sampled[event.index]
        prompt.sampled[event.index] = event.n_tokens
        if isinstance(event, Finished):
            prompt.n_unfinished -= 1
            self._n_accepted += event.n_accepted
            self._n_rejected += event.n_rejected
        if not prompt.completion_told:
            prompt.n_completion += n_more
            self._n_completion += n_more

    def usage(self) -> Usage:
        """For the answer: every prompt counts from its beginning on."""
        return Usage(
            self._n_prompt,
            self._n_completion,
            self._n_cached,
            accepted_prediction_tokens=self._n_accepted,
            rejected_prediction_tokens=self._n_rejected,
        )

    def used(self, *, left: bool) -> Usage:
        """For the ledger and the limits, once the request has ended in whatever way.

        Those prompts count of which something was heard; where the client has `left`, also those that an engine was at
        work on.
        """
        counting = [prompt for prompt in self._prompts if prompt.heard or (left and prompt.started)]
        return Usage(
            sum(prompt.n_tokens for prompt in counting),
            self._n_completion,
            self._n_cached,
            estimated=not (self._exact or all(prompt.known for prompt in counting)),
        )

    def _recount(self, prompt: _Prompt, counted: Counted) -> None:
        if counted.n_prompt is not None and not self._as_said:
            self._n_prompt += counted.n_prompt - prompt.n_tokens
            prompt.n_tokens, prompt.prompt_told = counted.n_prompt, True
        if counted.n_cached is not None:
            # Of all prompts together: at most those.
            self._n_cached += min(counted.n_cached, self._n_prompt - self._n_cached)
        if counted.n_completion is not None:
            self._n_completion += counted.n_completion - prompt.n_completion
            prompt.n_completion, prompt.completion_told = counted.n_completion, True
