"""The cluster's counters as one exposition: those of each replica, with a label. Knows no Ray."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from typing_extensions import override

from afterword.logs import RequestRecord
from afterword.metrics import Metrics, RequestMetrics
from afterword.registry import ServedModel

LABEL = "replica"

Exposition = tuple[str, bytes]
"""A replica's id and the text of its metrics."""


class ClusterMetrics(RequestMetrics):
    """What `/metrics` shows on any HTTP replica: its own counters, and the latest ones of all others."""

    def __init__(
        self, replica: str, models: Sequence[ServedModel], elsewhere: Callable[[], Iterable[Exposition]]
    ) -> None:
        """`models`: whose engines are in this replica, those of vendors.

        `elsewhere`: what is known of the other replicas, HTTP and engines; may contain this one.
        """
        self._replica = replica
        self._requests = Metrics(models)
        self._elsewhere = elsewhere

    @override
    def observe(self, record: RequestRecord) -> None:
        """Count a request that has ended here."""
        self._requests.observe(record)

    @override
    def show(self, models: Sequence[ServedModel]) -> None:
        self._requests.show(models)

    @override
    def flagged(self, model: str) -> None:
        self._requests.flagged(model)

    @override
    def between_tokens(self, model: str) -> Callable[[float], None]:
        return self._requests.between_tokens(model)

    @override
    def watch(self, name: str, meaning: str, read: Callable[[], int]) -> None:
        self._requests.watch(name, meaning, read)

    @override
    def watch_gauge(self, name: str, meaning: str, read: Callable[[], int]) -> None:
        self._requests.watch_gauge(name, meaning, read)

    def own(self) -> Exposition:
        """This replica's counters alone."""
        return self._replica, self._requests.render()

    @override
    def render(self) -> bytes:
        """Everything, in the text format 0.0.4."""
        others = [one for one in self._elsewhere() if one[0] != self._replica]
        return merged([self.own(), *others])


def merged(expositions: Iterable[Exposition]) -> bytes:
    """Samples of many expositions, each with its replica as a label, one family a name.

    Works on lines and parses no sample: a hundred replicas are merged while streams wait.
    """
    families: dict[str, _Family] = {}
    for replica, text in expositions:
        label = f'{LABEL}="{replica}"'
        family = _Family()
        for line in text.decode("utf-8").splitlines():
            if line.startswith("# HELP "):
                family = families.setdefault(line.split(" ", 3)[2], _Family())
            if line.startswith("#"):
                family.head.setdefault(line)
            else:
                family.samples.append(_labelled(line, label))
    lines = [line for family in families.values() for line in (*family.head, *family.samples)]
    return "".join(f"{line}\n" for line in lines).encode()


@dataclass(slots=True)
class _Family:
    """The lines of one name."""

    head: dict[str, None] = field(default_factory=dict)
    """What it means and of which type it is, once."""
    samples: list[str] = field(default_factory=list)


def _labelled(sample: str, label: str) -> str:
    """The sample with one label more: `name 1` or `name{a="b"} 1`, where values of labels may hold anything."""
    name, brace, labels = sample.partition("{")
    if brace and " " not in name:
        return f"{name}{{{label},{labels}"
    name, _, value = sample.partition(" ")
    return f"{name}{{{label}}} {value}"
