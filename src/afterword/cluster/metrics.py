"""The cluster's counters as one exposition: each replica's own, told apart by a label. Knows no Ray."""

from collections.abc import Callable, Iterable, Iterator, Sequence

from prometheus_client import generate_latest
from prometheus_client.core import Metric
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

from afterword.logs import RequestRecord
from afterword.metrics import Metrics
from afterword.models import ServedModel

LABEL = "replica"

Exposition = tuple[str, bytes]
"""A replica's id and the text of its metrics."""


class ClusterMetrics:
    """What `/metrics` shows on any HTTP replica: its own counters as they are, all others' as last heard of."""

    def __init__(
        self, replica: str, models: Sequence[ServedModel], elsewhere: Callable[[], Iterable[Exposition]]
    ) -> None:
        """`models`: whose engines are in this replica, those of vendors.

        `elsewhere`: what is known of the other replicas, HTTP and engines; may contain this one.
        """
        self._replica = replica
        self._requests = Metrics(models)
        self._elsewhere = elsewhere

    def observe(self, record: RequestRecord) -> None:
        """Count a request that has ended here."""
        self._requests.observe(record)

    def flagged(self, model: str) -> None:
        """See `RequestMetrics`."""
        self._requests.flagged(model)

    def watch(self, name: str, meaning: str, read: Callable[[], int]) -> None:
        """See `RequestMetrics`."""
        self._requests.watch(name, meaning, read)

    def own(self) -> Exposition:
        """This replica's counters alone."""
        return self._replica, self._requests.render()

    def render(self) -> bytes:
        """Everything, in the text format 0.0.4."""
        others = [one for one in self._elsewhere() if one[0] != self._replica]
        return generate_latest(_Merged([self.own(), *others]))


class _Merged(Collector):
    """Samples of many expositions, each with its replica as a label, one family a name."""

    def __init__(self, expositions: Iterable[Exposition]) -> None:
        self._expositions = expositions

    def collect(self) -> Iterator[Metric]:
        families: dict[str, Metric] = {}
        for replica, text in self._expositions:
            for family in text_string_to_metric_families(text.decode("utf-8")):
                merged = families.setdefault(family.name, Metric(family.name, family.documentation, family.type))
                for sample in family.samples:
                    merged.add_sample(sample.name, {**sample.labels, LABEL: replica}, sample.value)
        yield from families.values()
