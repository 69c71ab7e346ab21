"""What the engine needs of vLLM, as a protocol in this package's types, so that tests can fake it. Knows no vLLM."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass
from typing import Protocol

from afterword.engine.events import PromptScores
from afterword.engine.vllm.plan import Plan


@dataclass(frozen=True, slots=True)
class NewToken:
    """A sampled token; `logprob` and `top` as in `SampledToken`, None and empty if the plan wants none."""

    id: int
    logprob: float | None
    top: tuple[tuple[int, float], ...]


@dataclass(frozen=True, slots=True)
class CoreOutput:
    """One output of vLLM for one candidate: the tokens since the last one."""

    tokens: tuple[NewToken, ...]
    n_cached: int
    """Prompt tokens found in its prefix cache."""
    scores: PromptScores | None
    """In the first step, if the plan asks for them."""
    queue_seconds: float
    """How long the candidate waited before it ran."""


class Core(Protocol):
    """A running vLLM on an event loop of its own."""

    loop: asyncio.AbstractEventLoop
    """Where `sample` is called."""
    on_end: Callable[[], None]
    """Called when the loop has ended for any reason, by the thread that ran it."""

    @property
    def is_dead(self) -> bool:
        """Whether vLLM has failed for good; any thread."""
        ...

    @property
    def n_steps(self) -> int:
        """Forward passes so far; any thread."""
        ...

    def sample(self, plan: Plan) -> AsyncGenerator[CoreOutput, None]:
        """Run one candidate to its end. Closing the generator aborts it.

        Raises `InvalidRequest` if vLLM refuses the plan, `EngineFailed` if it breaks.
        """
        ...

    def close(self) -> None:
        """Free the model and end the loop; blocks for seconds. Any thread but the loop's; again changes nothing."""
        ...
