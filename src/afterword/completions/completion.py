"""A completion request with every default filled in: what `resolve` returns and the rest of the package relies on.

No field is None in the sense of "default"; where None remains it is a value of its own (`logprobs=None`: none wanted).
"""

from dataclasses import dataclass, replace

from afterword.engine.line import Claim
from afterword.engine.request import GenerationRequest
from afterword.engine.trace import Trace
from afterword.fields.shown import Shown

BYTES_PER_TOKEN = 4
"""Of text in common languages, by vocabularies of today."""


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
    priority: int | None
    """None: its key's."""
    exact_tokens: bool
    """The prompts' tokens are the model's own. If not, how many they are to the model is an estimate."""
    counted: tuple[int, ...] | None = None
    """Tokens that count as used for each prompt; None: all that it has. Scores count a context once."""

    def sent(self, trace: Trace, claim: Claim) -> "Completion":
        """The same with what its prompts are called by others, and on whose behalf they run."""
        return replace(self, generations=tuple(replace(one, trace=trace, claim=claim) for one in self.generations))

    @property
    def n_prompt_tokens(self) -> tuple[int, ...]:
        """Tokens that count for each prompt, with its negative one, as far as they are known before it is sent."""
        if self.counted is not None:
            return self.counted
        negative = [0 if one.guidance is None else len(one.guidance.tokens) for one in self.generations]
        lengths = (len(one.prompt) + n for one, n in zip(self.generations, negative, strict=True))
        return tuple(length if self.exact_tokens else estimated_tokens(length) for length in lengths)

    @property
    def most_tokens(self) -> int:
        """Tokens that it can use at most: each prompt once, each candidate to its last allowed token."""
        return sum(self.n_prompt_tokens) + sum(one.n_candidates * one.max_tokens for one in self.generations)

    @property
    def n_choices(self) -> int:
        """Choices in the answer: prompts x n."""
        return len(self.prompts) * self.n

    @property
    def n_listed(self) -> int:
        """Log-probabilities and token ids that the answer can list at most, in all of its choices together."""
        shown, total = self.shown, 0
        n_named = len(shown.logprob_token_ids)
        for request in self.generations:
            n_prompt = len(request.prompt)
            if shown.logprobs is not None:
                total += ((n_prompt if shown.echo else 0) + request.max_tokens) * ((n_named or shown.logprobs) + 1)
            if shown.prompt_logprobs is not None:
                total += n_prompt * ((n_named or shown.prompt_logprobs) + 1)
            if shown.return_token_ids:
                total += n_prompt + request.max_tokens
        return total * self.n


def estimated_tokens(n_bytes: int) -> int:
    """About how many tokens so many bytes of text are to a model whose tokenizer is not known; at least one
    (docs/rules.md#estimates).
    """
    return max(1, -(-n_bytes // BYTES_PER_TOKEN))
