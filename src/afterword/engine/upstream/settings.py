"""What an upstream server is and what it can do, as the configuration tells it. Opens no connection."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args

UpstreamKind = Literal["openai", "llama-server", "vllm", "afterword"]
UPSTREAM_KINDS: tuple[UpstreamKind, ...] = get_args(UpstreamKind)

EXTENSIONS = (
    "top_k",
    "min_p",
    "repetition_penalty",
    "ignore_eos",
    "min_tokens",
    "stop_token_ids",
    "skip_special_tokens",
)
"""Fields beyond the documented API that an upstream may honour."""


@dataclass(frozen=True, slots=True)
class Supports:
    """What an upstream honours. What it lacks is made up for where that is possible, and refused by name elsewhere."""

    token_prompts: bool = True
    """Prompts as arrays of token ids."""
    n: bool = True
    """Several choices of a prompt in one request."""
    greedy_n: bool = True
    """The same at temperature 0."""
    seed: bool = True
    logprobs: bool = True
    max_logprobs: int = 5
    min_logprobs: int = 0
    """Least `logprobs` that gives the sampled tokens' own values."""
    prompt_logprobs: bool = True
    """`echo` with `logprobs` lists the prompt's tokens."""
    logit_bias: bool = True
    penalties: bool = True
    """`frequency_penalty` and `presence_penalty`."""
    zero_tokens: bool = True
    """`max_tokens` 0."""
    max_stops: int = 4
    include_stop: bool = False
    """`include_stop_str_in_output`."""
    stream_usage: bool = True
    """`stream_options.include_usage`."""
    token_ids: bool = False
    """`return_tokens_as_token_ids`: log-probabilities name tokens by id."""
    extensions: tuple[str, ...] = ()
    """Those of `EXTENSIONS` that it honours."""


PRESETS: Mapping[UpstreamKind, Supports] = {
    "openai": Supports(),
    "llama-server": Supports(
        n=False,  # it answers as many as it has slots for, and counts the first one's tokens only
        max_logprobs=100,
        min_logprobs=1,
        prompt_logprobs=False,
        zero_tokens=False,
        max_stops=64,
        extensions=("top_k", "min_p", "repetition_penalty", "ignore_eos"),
    ),
    "vllm": Supports(
        greedy_n=False,
        max_logprobs=20,
        include_stop=True,
        token_ids=True,
        extensions=EXTENSIONS,
    ),
    "afterword": Supports(
        max_logprobs=100,
        max_stops=64,
        include_stop=True,
        token_ids=True,
        extensions=EXTENSIONS,
    ),
}
"""What each kind of server is known to honour."""


@dataclass(frozen=True, slots=True)
class Patience:
    """How long to wait, in seconds, and how often to try."""

    connect: float = 5.0
    first_event: float = 300.0
    """From sending a request to the first event of its answer: queueing and the prompt are in it."""
    idle: float = 60.0
    """Between two events of an answer."""
    retries: int = 2
    """Further attempts where nothing has come yet and trying again does no harm."""


@dataclass(frozen=True, slots=True)
class Caution:
    """When to stop asking a server that fails, and when to ask again."""

    failures: int = 3
    """Failures in a row that open the breaker."""
    rest: float = 10.0
    """Seconds without requests after that; doubled each time the trial fails."""
    longest_rest: float = 300.0
    health_interval: float = 10.0
    """Seconds between questions for its health while it rests."""


@dataclass(frozen=True, slots=True)
class VendorSettings:
    """One upstream server."""

    name: str
    url: str
    """Base of its API, without a slash at the end; usually ends in `/v1`."""
    kind: UpstreamKind = "openai"
    api_key: str | None = field(default=None, repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, hash=False, repr=False)
    max_concurrent: int = 64
    """Sequences sent to it at once; more wait here."""
    patience: Patience = Patience()
    caution: Caution = Caution()
    supports: Supports = Supports()
