"""Figures to medians and ratios, and to the JSON of a result. Pure: no file, no clock.

A ratio compares two servers within one round, where both had the same machine; of the rounds' ratios the median is
given. Above 1 is better than the reference, whichever way the metric goes.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from statistics import median
from typing import Any

HIGHER_IS_BETTER = ("_per_s",)
LOWER_IS_BETTER = ("_s", "_ms", "_us", "_mib", "_per_token", "_share")


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured value."""

    round: int
    server: str
    group: str
    metric: str
    at: int | None
    """The size of the work, where it grows."""
    value: float


@dataclass(frozen=True, slots=True)
class Start:
    """The state of the machine before one group was run on one server."""

    round: int
    server: str
    group: str
    unix_time: float
    load_1m: float


@dataclass(frozen=True, slots=True)
class Failure:
    """Why one server has no figures for one group in one round."""

    round: int
    server: str
    group: str
    reason: str


@dataclass(slots=True)
class Record:
    """All that a run has found so far. Grows; one owner."""

    figures: list[Figure] = field(default_factory=list)
    starts: list[Start] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Key:
    """What was measured of whom: a figure without its round."""

    server: str
    group: str
    metric: str
    at: int | None = None


@dataclass(frozen=True, slots=True)
class Line:
    """One key's figures over all rounds."""

    key: Key
    median: float
    low: float
    high: float
    n_rounds: int
    ratios: dict[str, float]
    """Reference server to ratio; without those that have no figure of it."""


def figures(number: int, server: str, group: str, measures: Mapping[str, float]) -> list[Figure]:
    """The figures of one run; the `@N` at the end of a metric's name is its size."""
    found = []
    for name, value in measures.items():
        metric, _, at = name.partition("@")
        found.append(Figure(number, server, group, metric, int(at) if at else None, value))
    return found


def direction(metric: str) -> int:
    """1 if more is better, -1 if less is, by the unit that ends the name. Raises `ValueError` for any other."""
    if metric.endswith(HIGHER_IS_BETTER):
        return 1
    if metric.endswith(LOWER_IS_BETTER):
        return -1
    raise ValueError(f"{metric} does not end in a known unit")


def by_round(figures: Iterable[Figure], key: Key) -> dict[int, float]:
    """Round to value of one key."""
    return {
        figure.round: figure.value
        for figure in figures
        if Key(figure.server, figure.group, figure.metric, figure.at) == key
    }


def gain(figures: Sequence[Figure], measured: Key, reference: Key) -> float | None:
    """How many times better `measured` is than `reference`: the median over the rounds that have both; None without."""
    ours, theirs = by_round(figures, measured), by_round(figures, reference)
    common = ours.keys() & theirs.keys()
    if not common:
        return None
    return median((ours[number] / theirs[number]) ** direction(measured.metric) for number in common)


def summary(figures: Sequence[Figure], references: Sequence[str]) -> list[Line]:
    """One line a key, in the order of first appearance."""
    keys = dict.fromkeys(Key(figure.server, figure.group, figure.metric, figure.at) for figure in figures)
    return [_line(figures, key, references) for key in keys]


def document(record: Record, references: Sequence[str], facts: Mapping[str, Any]) -> dict[str, Any]:
    """The result file: `facts` of the machine and the run, the summary, and every figure it was made from."""
    return {
        **facts,
        "references": list(references),
        "summary": [_flat(line) for line in summary(record.figures, references)],
        "figures": [asdict(figure) for figure in record.figures],
        "starts": [asdict(start) for start in record.starts],
        "failures": [asdict(failure) for failure in record.failures],
    }


def table(lines: Sequence[Line], references: Sequence[str]) -> str:
    """The summary as text, grouped by what was measured so that servers stand under each other."""
    heads = "".join(f"{'/ ' + reference:>22}" for reference in references)
    rows = [f"{'group':26}{'metric':38}{'at':>6}  {'server':20}{'median':>10}{'low':>10}{'high':>10}{heads}"]
    for line in sorted(lines, key=lambda line: (line.key.group, line.key.metric, line.key.at or 0)):
        at = "" if line.key.at is None else str(line.key.at)
        ratios = "".join(f"{_number(line.ratios.get(reference)):>22}" for reference in references)
        rows.append(
            f"{line.key.group:26}{line.key.metric:38}{at:>6}  {line.key.server:20}"
            f"{line.median:10.4g}{line.low:10.4g}{line.high:10.4g}{ratios}"
        )
    return "\n".join(rows)


def _line(figures: Sequence[Figure], key: Key, references: Sequence[str]) -> Line:
    values = list(by_round(figures, key).values())
    ratios = {}
    for reference in references:
        ratio = gain(figures, key, Key(reference, key.group, key.metric, key.at))
        if ratio is not None:
            ratios[reference] = ratio
    return Line(key, median(values), min(values), max(values), len(values), ratios)


def _flat(line: Line) -> dict[str, Any]:
    rest = asdict(line)
    key: dict[str, Any] = rest.pop("key")
    return key | rest


def _number(ratio: float | None) -> str:
    return "" if ratio is None else f"{ratio:.3f}"
