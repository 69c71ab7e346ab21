"""A completion request with every default filled in: what `resolve` returns and the rest of the package relies on.

No field is None in the sense of "default"; where None remains it is a value of its own (`logprobs=None`: none wanted).
"""

from dataclasses import dataclass

from afterword.engine.request import GenerationRequest
from afterword.fields.shown import Shown


@dataclass(frozen=True, slots=True)
class Prompt:
    """One prompt of a request."""

    text: str
    """What `echo` puts in front: the text as sent, or the whole characters of the decoded token array."""
    tokens: tuple[int, ...]
    """What the engine processes (for `suffix`: the infill order). At least one."""
    offsets: tuple[int, ...]
    """Code-point offset of each of `tokens` within `text`, non-decreasing, at most len(text). Empty when the
    request asks for no log-probabilities of the prompt."""


@dataclass(frozen=True, slots=True)
class Completion:
    """A whole request. `generations[i]` belongs to `prompts[i]`."""

    model: str
    """The registered name that answers, as the response shows it."""
    prompts: tuple[Prompt, ...]
    generations: tuple[GenerationRequest, ...]
    n: int
    best_of: int
    shown: Shown
    stream: bool
    include_usage: bool
    continuous_usage: bool
    include_obfuscation: bool
    seed: int
    user: str | None

    @property
    def most_tokens(self) -> int:
        """Tokens that it can use at most: each prompt once, each candidate to its last allowed token."""
        return sum(len(one.prompt) + one.n_candidates * one.max_tokens for one in self.generations)

    @property
    def n_choices(self) -> int:
        """Choices in the answer: prompts x n."""
        return len(self.prompts) * self.n
