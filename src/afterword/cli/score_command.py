"""`afterword score`: how likely a model finds each line of a file. Rows go to stdout or a file, progress to stderr."""

import asyncio
import sys
from collections import deque
from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import Progress

from afterword.cli.backend import Backend
from afterword.cli.open_backend import BACKEND_OPTIONS, open_backend
from afterword.cli.options import Option, argument, with_options
from afterword.cli.reading import read_text
from afterword.cli.score_lines import COLUMNS, Kind, Line, Row, read_lines, rows_of, summary
from afterword.cli.score_output import Form, Output
from afterword.config.refusal import read_option
from afterword.errors import AfterwordError

IN_FLIGHT = 16
"""Lines being scored at once, so that the engine can batch them and share what they have in common."""

FILE = argument("file", str, "A text, a pair or a question a line, in UTF-8; - reads stdin.")

OPTIONS = [
    Option("kind", ("--kind",), str, "What a line is: text, pairs or choices. [default: text]", "KIND"),
    Option("format", ("--format",), str, "json, an object a line, or csv. [default: json]", "FORMAT"),
    Option("output", ("--output", "-o"), str, "Write rows to this file, and go on behind those it has.", "FILE"),
]


class ScoringFailed(AfterwordError):
    """A line could not be scored; the message says which and why."""


@with_options([*OPTIONS, *BACKEND_OPTIONS], [FILE])
def score(values: Mapping[str, Any]) -> None:
    """Score each line of a file: a text, a pair, or a question with its choices.

    \b
    --kind text     text, tokens (how many), sum_logprob, mean_logprob and perplexity of each line. The first token has
                    nothing before it and no probability, so a text of one token has null for the last two. A perplexity
                    beyond all numbers is null too.
    --kind pairs    each line is JSON, ["context", "continuation"] or {"prompt": ..., "continuation": ...}: how likely
                    the continuation is.
    --kind choices  each line is {"prompt": ..., "continuations": [...]}: a row for each, is_best for the likeliest.

    With --output the rows are added to a file, and one that has some already is gone on with.

    \b
    Examples:
      afterword score sentences.txt > scores.jsonl
      sort -u words.txt | afterword score - --url http://127.0.0.1:8000
      afterword score questions.jsonl --kind choices --format csv --output scores.csv
    """
    kind: Kind = read_option(Kind, values["kind"] or "text", "--kind")
    form: Form = read_option(Form, values["format"] or "json", "--format")
    lines = read_lines(read_text(values["file"]), kind)
    output = Output(form, COLUMNS[kind], None if values["output"] is None else Path(values["output"]))
    n_done = output.begin(lines)
    try:
        if n_done < len(lines):
            asyncio.run(_score(open_backend(values), lines[n_done:], output))
    finally:
        output.close()


async def _score(backend: Backend, lines: Sequence[Line], output: Output) -> None:
    """Write the scores in the order of the lines, with a window of `IN_FLIGHT` requests running ahead."""
    left = iter(lines)
    window: deque[asyncio.Task[list[Row]]] = deque()
    try:
        with _progress() as progress:
            for _ in progress.track(lines, description="Scoring"):
                for line in islice(left, IN_FLIGHT - len(window)):
                    window.append(asyncio.create_task(_score_line(backend, line)))
                rows = await window[0]
                window.popleft()
                output.add(rows)
    finally:
        for task in window:
            task.cancel()
        await asyncio.gather(*window, return_exceptions=True)
        await backend.aclose()


def _progress() -> Progress:
    """A bar on stderr, unless the rows themselves show on a terminal how far it is (docs/rules.md#output-of-commands).

    Without the two switches rich takes stdout over, and writes to the bar's terminal what was meant for a file.
    """
    return Progress(
        console=Console(stderr=True), redirect_stdout=False, redirect_stderr=False, disable=sys.stdout.isatty()
    )


async def _score_line(backend: Backend, line: Line) -> list[Row]:
    try:
        if line.kind != "text":
            pairs = [[line.prompt, continuation] for continuation in line.continuations]
            return rows_of(line, (await backend.score({"pairs": pairs}))["data"])
        body = await backend.answer({"prompt": line.prompt, "echo": True, "logprobs": 0, "max_tokens": 0})
    except AfterwordError as error:
        raise ScoringFailed(f"Line {line.number} was not scored: {error}") from error
    logprobs = (body["choices"][0].get("logprobs") or {}).get("token_logprobs")
    if not isinstance(logprobs, list) or not all(value is None or isinstance(value, float | int) for value in logprobs):
        raise ScoringFailed(f"Line {line.number} was not scored: the server gives no log-probabilities of the prompt.")
    return [summary(line.prompt, logprobs)]
