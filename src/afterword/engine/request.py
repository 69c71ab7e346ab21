"""What an engine is asked to do: one prompt, some candidates, every decision already made."""

from dataclasses import dataclass, replace
from typing import Final

GREEDY_BELOW: Final = 1e-5
"""Temperatures under this are greedy (docs/rules.md#greedy): dividing by them would overflow."""


@dataclass(frozen=True, slots=True)
class Sampling:
    """How the next token is drawn from the logits. Every field is set; the neutral value is given.

    Order of application: bias and penalties, temperature, min_p, top_k, top_p (docs/rules.md#sampling-order).
    """

    temperature: float = 1.0
    """Divides the logits."""
    top_p: float = 1.0
    """Mass of the nucleus, 1.0 = all; 0 = the top token."""
    top_k: int = 0
    """Keep the k likeliest tokens, 0 = all."""
    min_p: float = 0.0
    """Keep tokens at least this fraction as likely as the likeliest, 0 = all."""
    frequency_penalty: float = 0.0
    presence_penalty: float = 0.0
    """Both count the tokens sampled for this candidate, not the prompt."""
    repetition_penalty: float = 1.0
    """Divides positive and multiplies negative logits of tokens in prompt or completion, 1.0 = off."""
    logit_bias: tuple[tuple[int, float], ...] = ()
    """(token id, -100..100) pairs with distinct ids; -100 bans, 100 forces."""

    @property
    def is_greedy(self) -> bool:
        """Nothing is left to chance, whichever way that was said: the likeliest token, the lowest id on a tie."""
        return self.temperature < GREEDY_BELOW or self.top_p <= 0 or self.top_k == 1 or self.min_p >= 1

    def plain(self) -> "Sampling":
        """The same; greedy said by temperature 0 alone, so that also who lacks the other ways can do it."""
        return replace(self, temperature=0.0, top_p=1.0, top_k=0, min_p=0.0) if self.is_greedy else self


@dataclass(frozen=True, slots=True)
class GenerationRequest:
    """One prompt being completed by `n_candidates` independent candidates."""

    prompt: tuple[int, ...]
    """Token ids, at least one, all within the vocabulary."""
    n_candidates: int
    max_tokens: int
    """Tokens to sample per candidate at most; 0 only processes the prompt."""
    sampling: Sampling
    seed: int
    """Any 64-bit integer, always set: drawn by the resolver when the client gave none."""
    reproducible: bool
    """The client gave the seed: answers must not depend on anything else the engine does (docs/rules.md#same-bytes)."""
    prompt_index: int = 0
    """Number of this prompt within its request; part of the random stream's key."""
    min_tokens: int = 0
    """End tokens and stop tokens are not sampled before this many tokens."""
    end_ids: frozenset[int] = frozenset()
    """Tokens that end a candidate with `stop`; the model's own, the request's, none with ignore_eos."""
    stops: tuple[str, ...] = ()
    """Texts that end a candidate; none is empty."""
    include_stop: bool = False
    """Leave the matched stop in the text."""
    skip_special_tokens: bool = True
    """Control tokens have no text."""
    logprobs: int | None = None
    """None: none wanted. k: each sampled token with its log-probability and the k likeliest."""
    prompt_logprobs: int | None = None
    """The same for the prompt's own tokens."""
    text_offset: int = 0
    """Code points of the prompt's text: where the completion's first token is counted from."""
    pending: bytes = b""
    """Bytes of a character that the prompt began and the completion may finish (token-array prompts)."""

    def __post_init__(self) -> None:
        assert self.prompt, "a prompt has at least one token"
        assert self.n_candidates >= 1
        assert self.max_tokens >= 0
        assert all(self.stops), "an empty stop matches everything"
