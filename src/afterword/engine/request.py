"""What an engine is asked for: one prompt, some candidates, every default filled in."""

from dataclasses import dataclass
from typing import Literal

from afterword.engine.grammars.grammar_compiler import Compiled
from afterword.engine.line import ANYBODY, Claim
from afterword.engine.trace import NO_TRACE, Trace
from afterword.fields.bans import NO_BANS, TextBans
from afterword.fields.sampling import Sampling


@dataclass(frozen=True, slots=True)
class Beams:
    """How a beam search compares what it finds (docs/rules.md#beam-search)."""

    length_penalty: float
    """Power of the length that a sum of log-probabilities is divided by."""
    early_stopping: bool | Literal["never"]
    """When it ends: at the last of as many ends as there are beams; once none that is better is likely; or possible."""


@dataclass(frozen=True, slots=True)
class Guidance:
    """A second prompt to steer away from (docs/rules.md#guidance)."""

    scale: float
    text: str
    """As the client wrote it."""
    tokens: tuple[int, ...]
    """Of the text, at least one."""


@dataclass(frozen=True, slots=True)
class GenerationRequest:
    """One prompt being completed by `n_candidates` independent candidates, or by a search with as many beams."""

    prompt: tuple[int, ...]
    """Token ids, at least one, all within the vocabulary."""
    n_candidates: int
    max_tokens: int
    """Tokens to sample per candidate at most; 0 only processes the prompt."""
    sampling: Sampling
    seed: int
    """Any 64-bit integer, always set: drawn by the resolver when the client gave none."""
    reproducible: bool
    """The client gave the seed: the answer must not depend on other requests (docs/rules.md#same-bytes)."""
    prompt_index: int = 0
    """Number of this prompt within its request; a part of the random numbers' key."""
    min_tokens: int = 0
    """End tokens and stop tokens are not sampled before this many tokens."""
    end_ids: frozenset[int] = frozenset()
    """Tokens that end a candidate with `stop`; the model's own, the request's, none with ignore_eos."""
    grammar: Compiled | None = None
    """What each candidate's text must be; None: anything."""
    beams: Beams | None = None
    """Search, and draw nothing: the candidates are what was found, best first. None: each is sampled."""
    guidance: Guidance | None = None
    """Not with `beams`."""
    bans: TextBans = NO_BANS
    """Texts that no candidate's may have."""
    predicted: tuple[int, ...] | None = None
    """Tokens that the completion may have; they change nothing of it. None: nothing was predicted."""
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
    score_from: int = 0
    """Of those, row i of `PromptScores` and on are wanted; an engine may give more."""
    named_ids: tuple[int, ...] = ()
    """Tokens whose log-probabilities are wanted at every place that is scored, in this order."""
    text_offset: int = 0
    """Code points of the prompt's text; offsets of sampled tokens continue from there."""
    pending: bytes = b""
    """Bytes of a character that the prompt ends in the middle of (token arrays); the completion may complete it."""
    trace: Trace = NO_TRACE
    """Changes nothing of the answer."""
    claim: Claim = ANYBODY
    """Decides when it runs, and nothing of the answer."""
    streamed: bool = True
    """Chunks are read as they come. If not, an engine may keep them back for a moment, to tell several at once."""

    @property
    def n_sequences(self) -> int:
        """That are computed at once, if there is room for all."""
        return self.n_candidates * (1 if self.guidance is None else 2)

    def __post_init__(self) -> None:
        assert self.prompt, "a prompt has at least one token"
        assert self.n_candidates >= 1
        assert self.max_tokens >= 0
        assert 0 <= self.score_from < max(1, len(self.prompt) - 1)
        assert all(self.stops), "an empty stop matches everything"
        assert self.beams is None or (self.max_tokens > 0 and self.guidance is None)
