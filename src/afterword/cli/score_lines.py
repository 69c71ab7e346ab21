"""What the lines of a file ask `afterword score` for, and the rows that answer them. Pure."""

import json
import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from afterword.errors import ConfigurationError

Kind = Literal["text", "pairs", "choices"]

Row = dict[str, Any]

_SCORES = ("tokens", "sum_logprob", "mean_logprob", "logprob_per_byte", "is_greedy")

COLUMNS: dict[Kind, tuple[str, ...]] = {
    "text": ("text", "tokens", "sum_logprob", "mean_logprob", "perplexity"),
    "pairs": ("prompt", "continuation", *_SCORES),
    "choices": ("line", "prompt", "choice", "continuation", *_SCORES, "is_best"),
}
"""Of the rows of each kind, in their order."""

LARGEST_EXPONENT = math.log(sys.float_info.max)


@dataclass(frozen=True, slots=True)
class Line:
    """One line: a text, or a prompt and what may follow it."""

    number: int
    """From 1."""
    kind: Kind
    prompt: Any
    """The text itself, if that is all there is."""
    continuations: tuple[Any, ...]
    """A row for each; for a text alone one that is None."""

    def begins(self, row: Row) -> bool:
        """Whether a row that is there already may be this line's first one."""
        if self.kind == "text":
            return _same(row.get("text"), self.prompt)
        return _same(row.get("prompt"), self.prompt) and _same(row.get("continuation"), self.continuations[0])


def read_lines(text: str, kind: Kind) -> list[Line]:
    """The lines of a file; only a line feed ends one. Raises `ConfigurationError` for one that is none of its kind."""
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    return [_line(number, line.removesuffix("\r"), kind) for number, line in enumerate(lines, start=1)]


def _line(number: int, line: str, kind: Kind) -> Line:
    if kind == "text":
        return Line(number, kind, line, (None,))
    try:
        given = json.loads(line)
    except ValueError as error:
        raise ConfigurationError(f"Line {number} is not JSON: {error}.") from error
    match kind, given:
        case "pairs", [prompt, continuation]:
            return Line(number, kind, prompt, (continuation,))
        case "pairs", {"prompt": prompt, "continuation": continuation}:
            return Line(number, kind, prompt, (continuation,))
        case "choices", {"prompt": prompt, "continuations": [_, *_] as continuations}:
            return Line(number, kind, prompt, tuple(continuations))
    expected = {
        "pairs": 'an array of two, or an object with "prompt" and "continuation"',
        "choices": 'an object with "prompt" and an array "continuations" that is not empty',
    }
    raise ConfigurationError(f"Line {number} is not {expected[kind]}.")


def rows_of(line: Line, scores: Sequence[Row]) -> list[Row]:
    """The rows of a line of pairs or choices, from the `data` of a score answer."""
    sums = [score["sum_logprob"] for score in scores]
    rows = []
    for number, (continuation, score) in enumerate(zip(line.continuations, scores, strict=True)):
        known = {"tokens": len(score["token_ids"])} | {name: score[name] for name in _SCORES if name != "tokens"}
        row = {
            "line": line.number,
            "prompt": line.prompt,
            "choice": number,
            "continuation": continuation,
            **known,
            "is_best": number == sums.index(max(sums)),
        }
        rows.append({name: row[name] for name in COLUMNS[line.kind]})
    return rows


def summary(text: str, logprobs: Sequence[float | None]) -> Row:
    """The row of one text, from the log-probabilities of its tokens (natural logarithms, the first one None)."""
    known = [logprob for logprob in logprobs if logprob is not None]
    total = math.fsum(known)
    mean = total / len(known) if known else None
    return {
        "text": text,
        "tokens": len(logprobs),
        "sum_logprob": total,
        "mean_logprob": mean,
        "perplexity": None if mean is None or -mean > LARGEST_EXPONENT else math.exp(-mean),
    }


def _same(shown: Any, value: Any) -> bool:
    """Whether a row shows the value: as itself, or in a table of texts as JSON."""
    return bool(shown == value) or (not isinstance(value, str) and shown == json.dumps(value))
