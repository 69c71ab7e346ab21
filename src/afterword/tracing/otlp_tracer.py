"""Spans by OpenTelemetry's library, sent over HTTP as OTLP. The only file that imports it.

Spans wait in a bounded queue for a thread of the library; what does not fit, or is not taken by the collector within
`SECONDS`, is dropped. The library's own variables (OTEL_SERVICE_NAME, OTEL_TRACES_SAMPLER and so on) work.
"""

import asyncio
import logging
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import structlog
from typing_extensions import override

from afterword import __version__
from afterword.engine.trace import AttemptRecorder, Trace
from afterword.errors import ConfigurationError
from afterword.logs import RequestRecord
from afterword.tracing.tracer import PromptTimes, RequestSpan, Timeline, Tracer

try:
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor
    from opentelemetry.trace import Span, SpanKind, Status, StatusCode, set_span_in_context
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
except ImportError as error:
    raise ConfigurationError(
        f"otlp_endpoint is set, but the package {error.name} is not installed: install afterword[traces]."
    ) from error

SECONDS = 2.0
"""That the collector has to take a batch, with all attempts."""

MOST_PROMPTS = 32
"""Of one request that have spans; a request may have thousands."""

SECONDS_BETWEEN_WARNINGS = 60.0

_W3C = TraceContextTextMapPropagator()


class OtlpTracer(Tracer, AttemptRecorder):
    """Both of them on one provider."""

    def __init__(self, endpoint: str) -> None:
        """`endpoint`: the collector's URL, without `/v1/traces`."""
        logging.getLogger("opentelemetry").handlers = [_Warnings()]
        logging.getLogger("opentelemetry").propagate = False
        resource = Resource.create({"service.version": __version__}).merge(Resource.create(_named_by_default()))
        self._provider = TracerProvider(resource=resource, shutdown_on_exit=False)
        exporter = OTLPSpanExporter(endpoint=f"{endpoint.rstrip('/')}/v1/traces", timeout=SECONDS)
        self._provider.add_span_processor(BatchSpanProcessor(exporter))
        self._tracer = self._provider.get_tracer("afterword", __version__)

    @override
    def begin(self, trace: Trace) -> RequestSpan:
        # Its name is known at its end.
        span = self._tracer.start_span("request", _W3C.extract(trace.headers()), SpanKind.SERVER)
        return _RequestSpan(self, span, trace)

    @override
    @contextmanager
    def attempt(self, trace: Trace, vendor: str, number: int) -> Iterator[Mapping[str, str]]:
        attributes: dict[str, str | int] = {"afterword.vendor": vendor, "http.request.resend_count": number}
        parent = _W3C.extract(trace.headers())
        span = self._tracer.start_span(f"attempt {vendor}", parent, SpanKind.CLIENT, attributes)
        try:
            yield _below(trace, span).headers()
        except (GeneratorExit, asyncio.CancelledError):
            # Whoever read it has left.
            raise
        except BaseException as error:
            span.set_status(Status(StatusCode.ERROR, type(error).__name__))
            raise
        finally:
            span.end()

    @override
    def close(self) -> None:
        self._provider.shutdown()

    def below(self, parent: Span, name: str, times: tuple[int, int], attributes: Mapping[str, str | int]) -> None:
        """A span that began and ended at those times, in nanoseconds since 1970."""
        span = self._tracer.start_span(name, set_span_in_context(parent), attributes=attributes, start_time=times[0])
        span.end(times[1])


class _RequestSpan(RequestSpan):
    def __init__(self, tracer: OtlpTracer, span: Span, trace: Trace) -> None:
        self.trace = _below(trace, span)
        self._tracer = tracer
        self._span = span
        # Spans have times of day, what is noted of a request has not.
        self._offset = time.time_ns() - _nanoseconds(time.perf_counter())

    @override
    def end(self, record: RequestRecord, timeline: Timeline) -> None:
        span = self._span
        span.update_name(f"{record.method} {record.route}")
        span.set_attributes(_attributes(record))
        if record.outcome >= 500:
            span.set_status(Status(StatusCode.ERROR, record.failure))
        for number, times in sorted(timeline.prompts.items())[:MOST_PROMPTS]:
            self._add_prompt(number, times, timeline.started if timeline.submitted is None else timeline.submitted)
        span.end()

    def _add_prompt(self, number: int, times: PromptTimes, submitted: float) -> None:
        attributes = {"afterword.prompt": number}
        admitted = submitted if times.waited is None else min(submitted + times.waited, times.done)
        parts = [("prefill", admitted, times.done), ("decode", times.done, times.ended)]
        if times.waited is not None:
            parts.insert(0, ("queue", submitted, admitted))
        for name, start, end in parts:
            between = (self._offset + _nanoseconds(start), self._offset + _nanoseconds(end))
            self._tracer.below(self._span, name, between, attributes)


def _below(trace: Trace, span: Span) -> Trace:
    """What whoever is below `span` calls the request."""
    carrier: dict[str, str] = {}
    _W3C.inject(carrier, set_span_in_context(span))
    return Trace(trace.request_id, carrier.get("traceparent", ""), carrier.get("tracestate", ""))


def _named_by_default() -> dict[str, str]:
    """The service's name, unless a variable of the library gives another."""
    named = str(Resource.create().attributes.get("service.name", ""))
    return {"service.name": "afterword" if named.startswith("unknown_service") else named}


def _attributes(record: RequestRecord) -> dict[str, str | int | bool]:
    found: dict[str, str | int | bool | None] = {
        "http.request.method": record.method,
        "http.route": record.route,
        "http.response.status_code": record.status,
        "error.type": record.failure,
        "afterword.request_id": record.request_id,
        "afterword.client_left": record.left,
    }
    if record.completion is not None:
        found |= {
            "gen_ai.operation.name": "text_completion",
            "gen_ai.request.model": record.completion.model,
            "gen_ai.usage.input_tokens": record.completion.prompt_tokens,
            "gen_ai.usage.output_tokens": record.completion.completion_tokens,
            "afterword.cached_tokens": record.completion.cached_tokens,
            "afterword.stream": record.completion.stream,
        }
    return {name: value for name, value in found.items() if value is not None}


def _nanoseconds(seconds: float) -> int:
    return int(seconds * 1e9)


class _Warnings(logging.Handler):
    """The library's complaints as log lines, one a minute: a collector that is away is one fact."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._latest = float("-inf")

    @override
    def emit(self, record: logging.LogRecord) -> None:
        now = time.monotonic()
        if now - self._latest >= SECONDS_BETWEEN_WARNINGS:
            self._latest = now
            structlog.get_logger("afterword.tracing").warning("spans are not sent", detail=record.getMessage())
