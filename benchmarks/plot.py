"""One picture a group, as SVG: bars of the servers' medians, or lines where the work grows."""

from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

import matplotlib

matplotlib.use("svg")
# Without these the file would differ with every run.
matplotlib.rcParams["svg.hashsalt"] = "afterword"
# Letters as text instead of outlines: a fifth of the size.
matplotlib.rcParams["svg.fonttype"] = "none"

from benchmarks.report import Line, direction  # noqa: E402
from matplotlib import pyplot  # noqa: E402 - the backend is chosen before it is loaded
from matplotlib.axes import Axes  # noqa: E402

COLOURS = {
    "afterword": "#0b6e4f",
    "afterword-on-llama.cpp": "#56b88f",
    "llama-server": "#b5520c",
    "vllm": "#5566aa",
    "llama-cpp-python": "#888888",
}
INCHES = (4.2, 3.2)


def plot(lines: Sequence[Line], directory: Path, stem: str) -> list[Path]:
    """Write `<stem>-<group>.svg` for each group into `directory`; the files."""
    by_group = groupby(sorted(lines, key=lambda line: line.key.group), key=lambda line: line.key.group)
    return [_picture(group, list(found), directory / f"{stem}-{group}.svg") for group, found in by_group]


def _picture(group: str, lines: Sequence[Line], file: Path) -> Path:
    metrics = list(dict.fromkeys(line.key.metric for line in lines))
    width, height = INCHES
    figure, axes = pyplot.subplots(1, len(metrics), figsize=(width * len(metrics), height), squeeze=False)
    for metric, panel in zip(metrics, axes[0], strict=True):
        chosen = [line for line in lines if line.key.metric == metric]
        if any(line.key.at is not None for line in chosen):
            _curves(panel, chosen)
        else:
            _bars(panel, chosen)
        better = "more is better" if direction(metric) > 0 else "less is better"
        panel.set_title(f"{metric}\n({better})", fontsize=9)
    figure.suptitle(group)
    figure.tight_layout()
    figure.savefig(file, metadata={"Date": None})
    pyplot.close(figure)
    return file


def _bars(panel: Axes, lines: Sequence[Line]) -> None:
    """Medians, with the lowest and the highest round as whiskers."""
    names = [line.key.server for line in lines]
    heights = [line.median for line in lines]
    below = [line.median - line.low for line in lines]
    above = [line.high - line.median for line in lines]
    colours = [COLOURS.get(name, "#333333") for name in names]
    panel.bar(range(len(lines)), heights, yerr=[below, above], color=colours, capsize=3)
    panel.set_xticks(range(len(lines)), names, rotation=30, ha="right", fontsize=7)


def _curves(panel: Axes, lines: Sequence[Line]) -> None:
    for name in dict.fromkeys(line.key.server for line in lines):
        points = sorted((line.key.at or 0, line.median) for line in lines if line.key.server == name)
        xs, ys = zip(*points, strict=True)
        panel.plot(xs, ys, marker="o", label=name, color=COLOURS.get(name, "#333333"))
    panel.set_xscale("symlog", base=2, linthresh=1)
    panel.set_ylim(bottom=0)
    panel.legend(fontsize=7)
