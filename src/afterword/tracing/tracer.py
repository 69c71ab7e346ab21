"""What a request's spans are made of, and the interface of what makes them. Knows no tracing library and no HTTP.

A request has one span. Below it each prompt has `queue` (until it had a slot), `prefill` (until its first token could
be sampled) and `decode`, and every attempt to have a vendor answer has one. Nothing of prompts and answers is in them.
"""

from dataclasses import dataclass, field
from typing import Protocol

from afterword.engine.events import Event, Finished, PromptDone
from afterword.engine.trace import Trace, record_attempts
from afterword.logs import RequestRecord


@dataclass(slots=True)
class PromptTimes:
    """One prompt. Times are of `time.perf_counter()`."""

    done: float
    """It had been processed."""
    waited: float | None
    """Seconds until it had a slot; None: nobody knows."""
    ended: float
    """Its latest candidate had ended, or, while none has, as `done`."""


@dataclass(slots=True)
class Timeline:
    """When what happened to a request, as its reader saw it."""

    started: float
    """It arrived."""
    submitted: float | None = None
    """Engines were given its prompts."""
    prompts: dict[int, PromptTimes] = field(default_factory=dict)
    """By number."""

    def note(self, prompt_index: int, event: Event, now: float) -> None:
        """Notice an event of one of its prompts."""
        match event:
            case PromptDone():
                self.prompts[prompt_index] = PromptTimes(now, event.waited, now)
            case Finished():
                self.prompts[prompt_index].ended = now


class RequestSpan(Protocol):
    """The span of a request that is being handled."""

    trace: Trace
    """What the request is called by others from here on: they come below this span."""

    def end(self, record: RequestRecord, timeline: Timeline) -> None:
        """The request has ended. Without this call nothing is sent."""
        ...


class Tracer(Protocol):
    """Makes spans and sends them, from threads of its own. Never raises, and never waits but in `close`."""

    def begin(self, trace: Trace) -> RequestSpan:
        """A request has arrived, which others call `trace`."""
        ...

    def close(self) -> None:
        """Send what is left, as far as that takes a few seconds."""
        ...


def open_tracer(endpoint: str | None) -> Tracer | None:
    """What sends spans to the OTLP endpoint at that URL; None for None. Attempts of vendors are spans from then on.

    Raises `ConfigurationError` if the library is not installed.
    """
    if endpoint is None:
        return None
    # Here and not above: the library takes half a second to load.
    from afterword.tracing.otlp_tracer import OtlpTracer

    tracer = OtlpTracer(endpoint)
    record_attempts(tracer)
    return tracer
