"""The engine protocol: the one interface between what a request means and a model.

Whatever implements it passes `tests/contract/`. `loading/` creates engines, on a cluster `cluster/http.py` does;
`registry.py` keeps them by name, and the application closes them.
"""

from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Protocol, Self

from afterword.engine.events import Event
from afterword.engine.request import GenerationRequest
from afterword.tokens import Tokenizer


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a model can do; read by the resolver, shown by `/v1/models/{id}`."""

    context: int
    """Tokens of prompt and completion together, per sequence."""
    max_logprobs: int
    """Largest k for `logprobs` this engine can report."""
    reproducible: bool
    """Keeps the promise of docs/rules.md#same-bytes."""
    prefix_cache: bool
    """Reuses the common prefix of earlier prompts."""
    n_slots: int
    """Sequences that can run at once."""
    n_cells: int | None = None
    """Tokens that all slots can hold together, where that may be fewer than their contexts; None: not known."""
    trained_context: int | None = None
    """Tokens of context that the model was trained with; None: not known."""
    runs_on: str = ""
    """What holds the model's layers, in words; empty: not known."""
    exact_tokens: bool = True
    """The tokenizer is the model's own. If not, its ids mean nothing to the model and its counts are estimates."""
    lacks: Mapping[str, str] = field(default_factory=dict, hash=False)
    """Features (`fields/table.py`) that this model does not support, each with the reason or the remedy: the end of the
    sentence "The model ... does not support ...: "."""


UNKNOWN_CONTEXT = 0
"""`Capabilities.context` of a model whose context only the server behind it knows; that server checks it."""


ROW_BOUNDS = (1, 2, 4, 8, 16, 32, 64, 128, 256)
"""Steps are counted by their rows, the tokens that they compute: at most so many. Larger ones have a place too."""


@dataclass(frozen=True, slots=True)
class UpstreamStats:
    """One server behind an engine."""

    vendor: str
    breaker: str
    """`closed`: it gets requests. `open`: it has failed and gets none for a while. `half_open`: it gets one."""
    requests: int
    """Prompts sent to it."""
    failures: int
    """Prompts that it failed to answer."""
    retries: int
    """Attempts to send one again."""


@dataclass(frozen=True, slots=True)
class EngineStats:
    """A snapshot. When a sequence is no longer counted as running or waiting, all that it did is counted."""

    state: str = "loading"
    """`loading`, `ready`, `unreachable` (no server behind it takes requests), `failed` or `closed`; of a model that is
    loaded when it is asked for also `unloaded`, and `starting` while somebody waits for that."""
    running: int = 0
    """Sequences that hold a slot."""
    waiting: int = 0
    """Sequences (candidates) that were accepted and have no slot yet."""
    steps: int = 0
    rows: int = 0
    """Rows of all steps."""
    step_rows: tuple[int, ...] = ()
    """Steps for each of `ROW_BOUNDS` and one more, each step counted once; empty: this engine does not say."""
    prompt_tokens: int = 0
    """Prompt tokens of finished prefills, computed or cached."""
    prefill_tokens: int = 0
    """Prompt tokens actually computed, forks' repeated last token included."""
    cached_tokens: int = 0
    """Prompt tokens that were found in the cache."""
    completion_tokens: int = 0
    slots_free: int = 0
    slots_idle: int = 0
    """Slots without a running sequence whose tokens are kept for reuse."""
    draft_tokens: int = 0
    """Tokens that were guessed and computed before they were sampled."""
    accepted_draft_tokens: int = 0
    """Those of them that were then sampled."""
    cancelled: int = 0
    """Sequences that were cancelled before they had ended."""
    queue_seconds: float = 0.0
    """Recent average of the time that a sequence waited for a slot."""
    upstreams: tuple[UpstreamStats, ...] = ()
    """The servers behind it, in the order in which they are asked."""
    fallbacks: int = 0
    """Prompts that were sent to the next of a model's vendors because one failed."""
    restarts: int = 0
    """Processes of the model that were started in place of one that ended."""
    problem: str | None = None
    """Why it is not ready, as a sentence, if it knows."""


class Generation(Protocol):
    """One prompt being completed.

    Iterate inside `async with` for events; leaving the context cancels whatever still runs, also if it was never
    entered. Entering waits until an engine elsewhere has accepted the request, and may raise what `generate` may.
    Iteration raises `EngineFailed` if the engine breaks. One reader, on the event loop that called `generate`.
    """

    async def __aenter__(self) -> Self: ...

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def __aiter__(self) -> AsyncIterator[Event]: ...

    def end(self, index: int) -> None:
        """Stop sampling one candidate, as the content filter does; the others go on.

        Called on the event loop, after a chunk of the candidate has been read. The candidate still gets exactly one
        `Finished`, as its last event, whose `n_tokens` counts all that was sampled for it; its reason is
        `content_filter`, unless the candidate had already ended by itself. Chunks that are already queued still come;
        the reader drops their text. A token that began in text already delivered is listed before the end, with no
        text. Ending what has finished, or what was ended before, does nothing.

        An engine that cannot stop one candidate of several at its source stops passing it on and finishes it at
        once, with the counts it has by then; if it was the last that ran, it cancels at the source.
        """
        ...

    def unread(self) -> Iterator[Event]:
        """Take the events that have arrived and were not read; waits for nothing.

        After the context was left they show what was generated until then.
        """
        ...


class Engine(Protocol):
    """A loaded model. Methods are called from the event loop and never block it."""

    tokenizer: Tokenizer
    capabilities: Capabilities

    @property
    def fingerprint(self) -> str:
        """`fp_` + 10 hex digits over everything that decides the numbers (docs/rules.md#fingerprint).

        That of a server elsewhere may change when the server does.
        """
        ...

    def start(self) -> None:
        """The event loop runs: begin what is done without being asked, which most engines have none of.

        Calling it again changes nothing.
        """
        return

    def generate(self, request: GenerationRequest) -> Generation:
        """Queue the request at once. Raises `Overloaded` or `EngineFailed` instead of waiting."""
        ...

    def check_capacity(self, n_sequences: int) -> None:
        """Raise `Overloaded` if that many sequences more are beyond the engine's limit; takes nothing.

        So a request of several prompts is refused whole, before its first prompt is queued.
        """
        ...

    def stats(self) -> EngineStats:
        """A snapshot; any thread."""
        ...

    async def aclose(self) -> None:
        """Cancel everything and free the model. Readers get `EngineFailed`."""
        ...
