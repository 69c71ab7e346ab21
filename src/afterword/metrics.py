"""Metrics for Prometheus: requests as they end, engines at the moment of a scrape.

Knows no HTTP framework. Each application has its own `Metrics`, so two in one process do not mix.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from typing import Protocol

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from prometheus_client.registry import Collector
from typing_extensions import override

from afterword.engine.base import ROW_BOUNDS, EngineStats
from afterword.logs import RequestRecord
from afterword.registry import ServedModel

CONTENT_TYPE = CONTENT_TYPE_PLAIN_0_0_4

STATES = ("unloaded", "starting", "loading", "ready", "unreachable", "failed", "closed")

TOO_MANY = 429
"""The status of a request over a limit of its key."""

BREAKER_STATES = ("closed", "open", "half_open")

_GAUGES = {
    "running": "Sequences that hold a slot.",
    "waiting": "Sequences that wait for a slot.",
    "slots_free": "Slots with nothing in them.",
    "slots_idle": "Slots kept only for their tokens.",
    "queue_seconds": "Recent average wait for a slot, in seconds.",
}
_COUNTERS = {
    "steps": "Forward passes.",
    "rows": "Rows (tokens) of all forward passes.",
    "prompt_tokens": "Prompt tokens of finished prefills, computed or cached.",
    "prefill_tokens": "Prompt tokens computed.",
    "cached_tokens": "Prompt tokens found in the cache.",
    "completion_tokens": "Tokens sampled.",
    "draft_tokens": "Tokens guessed from texts and computed before they were sampled.",
    "accepted_draft_tokens": "Those of them that were sampled.",
    "cancelled": "Sequences that were cancelled.",
    "fallbacks": "Prompts sent to the next vendor because one failed.",
    "restarts": "Processes of the model that were started in place of one that ended.",
}
_UPSTREAM_COUNTERS = {
    "requests": "Prompts sent to a server elsewhere.",
    "failures": "Prompts that it failed to answer.",
    "retries": "Attempts to send one again.",
}
_LATENCY_BUCKETS = (0.005, 0.025, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600)
_TTFT_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
_GAP_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5)

MAX_KEYS = 100
"""Keys with limits that have figures of their own: those whose requests ended last."""


class RequestMetrics(Protocol):
    """Counts requests and renders the counts; used from the event loop."""

    def observe(self, record: RequestRecord) -> None:
        """Count a request that has ended."""
        ...

    def flagged(self, model: str) -> None:
        """Count a candidate that the content filter ended."""
        ...

    def between_tokens(self, model: str) -> Callable[[float], None]:
        """What counts the seconds between two tokens of a candidate, as the server reads them from the engine."""
        ...

    def watch(self, name: str, meaning: str, read: Callable[[], int]) -> None:
        """Show a counter that is kept elsewhere; it is read at each scrape."""
        ...

    def watch_gauge(self, name: str, meaning: str, read: Callable[[], int]) -> None:
        """The same for a figure that also falls."""
        ...

    def show(self, models: Sequence[ServedModel]) -> None:
        """Show the engines of these models from now on."""
        ...

    def render(self) -> bytes:
        """The exposition text, version 0.0.4."""
        ...


class Metrics(RequestMetrics):
    """Everything that `/metrics` shows of one application."""

    def __init__(self, models: Sequence[ServedModel]) -> None:
        """`models`: those whose engines are shown."""
        self._collected = CollectorRegistry()
        self._engines = EngineCollector(models)
        self._collected.register(self._engines)
        counter = partial(Counter, registry=self._collected)
        histogram = partial(Histogram, registry=self._collected)
        self._requests = counter(
            "afterword_requests",
            "Requests that ended, by what became of them: 499 the client left, an error's status where a stream broke.",
            ("route", "status"),
        )
        self._latency = histogram(
            "afterword_request_seconds",
            "Time from a request's arrival to the end of its answer, in seconds.",
            ("route",),
            buckets=_LATENCY_BUCKETS,
        )
        self._ttft = histogram(
            "afterword_time_to_first_token_seconds",
            "Time from a request's arrival to its first token, in seconds.",
            ("model",),
            buckets=_TTFT_BUCKETS,
        )
        self._gaps = histogram(
            "afterword_inter_token_seconds",
            "Time between two tokens of a candidate, in seconds.",
            ("model",),
            buckets=_GAP_BUCKETS,
        )
        self._failures = counter("afterword_failures", "Requests that were refused or failed, by why.", ("reason",))
        self._keys = KeyCollector()
        self._collected.register(self._keys)
        self._left = counter(
            "afterword_clients_left",
            "Requests whose client went away before the answer was complete.",
            ("route",),
        )
        self._flagged = counter(
            "afterword_completions_flagged", "Candidates that the content filter ended.", ("model",)
        )

    @override
    def watch(self, name: str, meaning: str, read: Callable[[], int]) -> None:
        self._collected.register(WatchedFigure(CounterMetricFamily, name, meaning, read))

    @override
    def watch_gauge(self, name: str, meaning: str, read: Callable[[], int]) -> None:
        self._collected.register(WatchedFigure(GaugeMetricFamily, name, meaning, read))

    @override
    def show(self, models: Sequence[ServedModel]) -> None:
        self._engines.models = models

    @override
    def flagged(self, model: str) -> None:
        self._flagged.labels(model).inc()

    @override
    def between_tokens(self, model: str) -> Callable[[float], None]:
        observe: Callable[[float], None] = self._gaps.labels(model).observe
        return observe

    @override
    def observe(self, record: RequestRecord) -> None:
        if record.failure is not None:
            self._failures.labels(record.failure).inc()
        self._keys.observe(record)
        self._requests.labels(record.route, str(record.outcome)).inc()
        self._latency.labels(record.route).observe(record.latency)
        if record.left:
            self._left.labels(record.route).inc()
        if record.completion is not None and record.completion.ttft is not None:
            self._ttft.labels(record.completion.model).observe(record.completion.ttft)

    @override
    def render(self) -> bytes:
        return generate_latest(self._collected)


class WatchedFigure(Collector):
    """Calls `read` for its sample at each scrape."""

    def __init__(
        self,
        family: type[CounterMetricFamily] | type[GaugeMetricFamily],
        name: str,
        meaning: str,
        read: Callable[[], int],
    ) -> None:
        self._family = family
        self._name = name
        self._meaning = meaning
        self._read = read

    @override
    def collect(self) -> Iterator[Metric]:
        """One family with one sample."""
        yield self._family(self._name, self._meaning, value=self._read())


@dataclass(slots=True)
class _Key:
    """What is shown of a key with limits."""

    allowances: Mapping[str, tuple[int, int]]
    n_requests: int = 0
    n_refused: int = 0


class KeyCollector(Collector):
    """Keys with limits, `MAX_KEYS` at most: where they stood when their latest request began to be answered.

    On the event loop, like all that counts requests.
    """

    def __init__(self) -> None:
        self._keys: OrderedDict[str, _Key] = OrderedDict()

    def observe(self, record: RequestRecord) -> None:
        """Note a request that has ended. A key that comes back after it was dropped counts from zero."""
        if record.key_id is None or not record.allowances:
            return
        key = self._keys.setdefault(record.key_id, _Key(record.allowances))
        key.allowances = record.allowances
        key.n_requests += 1
        key.n_refused += record.status == TOO_MANY
        self._keys.move_to_end(record.key_id)
        if len(self._keys) > MAX_KEYS:
            self._keys.popitem(last=False)

    @override
    def collect(self) -> Iterator[Metric]:
        """Four families, empty if no key has limits."""
        requests = CounterMetricFamily("afterword_key_requests", "Requests of keys with limits.", labels=("key",))
        refused = CounterMetricFamily("afterword_key_refused", "Those of them over a limit.", labels=("key",))
        labels = ("key", "kind")
        limit = GaugeMetricFamily("afterword_key_limit", "A key's limit a minute.", labels=labels)
        left = GaugeMetricFamily("afterword_key_remaining", "What was left of it at the latest request.", labels=labels)
        for name, key in self._keys.items():
            requests.add_metric((name,), key.n_requests)
            refused.add_metric((name,), key.n_refused)
            for kind, (most, remaining) in key.allowances.items():
                limit.add_metric((name, kind), most)
                left.add_metric((name, kind), remaining)
        yield from (requests, refused, limit, left)


class EngineCollector(Collector):
    """Turns the engines' statistics into samples at each scrape; does not wait for an engine's thread."""

    def __init__(self, models: Sequence[ServedModel]) -> None:
        self.models = models

    @override
    def collect(self) -> Iterator[Metric]:
        """One family per figure, one sample per model."""
        snapshots = [(model.name, model.engine.stats()) for model in self.models]
        yield _states(snapshots)
        for name, meaning in _GAUGES.items():
            gauge = GaugeMetricFamily(f"afterword_engine_{name}", meaning, labels=("model",))
            for model, stats in snapshots:
                gauge.add_metric((model,), getattr(stats, name))
            yield gauge
        for name, meaning in _COUNTERS.items():
            counter = CounterMetricFamily(f"afterword_engine_{name}", meaning, labels=("model",))
            for model, stats in snapshots:
                counter.add_metric((model,), getattr(stats, name))
            yield counter
        yield _step_rows(snapshots)
        yield from _upstreams(snapshots)


def _states(snapshots: list[tuple[str, EngineStats]]) -> Metric:
    family = GaugeMetricFamily("afterword_engine_state", "1 for the state a model is in.", labels=("model", "state"))
    for model, stats in snapshots:
        for state in STATES:
            family.add_metric((model, state), float(stats.state == state))
    return family


def _step_rows(snapshots: list[tuple[str, EngineStats]]) -> Metric:
    """How many rows steps have: the batches. Only engines that say."""
    family = HistogramMetricFamily("afterword_engine_step_rows", "Rows (tokens) of a forward pass.", labels=("model",))
    bounds = [str(float(bound)) for bound in ROW_BOUNDS] + ["+Inf"]
    for model, stats in snapshots:
        if stats.step_rows:
            buckets = list(zip(bounds, accumulate(stats.step_rows), strict=True))
            family.add_metric((model,), buckets, sum_value=stats.rows)
    return family


def _upstreams(snapshots: list[tuple[str, EngineStats]]) -> Iterator[Metric]:
    """The upstream servers, if there are any."""
    behind = [(model, upstream) for model, stats in snapshots for upstream in stats.upstreams]
    if not behind:
        return
    states = GaugeMetricFamily(
        "afterword_upstream_state",
        "1 for the state of the breaker: closed lets requests through, open none, half_open one.",
        labels=("model", "vendor", "state"),
    )
    for model, upstream in behind:
        for state in BREAKER_STATES:
            states.add_metric((model, upstream.vendor, state), float(upstream.breaker == state))
    yield states
    for name, meaning in _UPSTREAM_COUNTERS.items():
        counter = CounterMetricFamily(f"afterword_upstream_{name}", meaning, labels=("model", "vendor"))
        for model, upstream in behind:
            counter.add_metric((model, upstream.vendor), getattr(upstream, name))
        yield counter
