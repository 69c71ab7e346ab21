"""`afterword score`: how likely a model finds each line of a file. JSON lines go to stdout, progress to stderr."""

import asyncio
import math
import sys
from collections import deque
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any

from rich.console import Console
from rich.progress import Progress

from afterword.cli.backend import Backend
from afterword.cli.json_output import write_json
from afterword.cli.open_backend import BACKEND_OPTIONS, open_backend
from afterword.cli.options import argument, with_options
from afterword.cli.reading import read_text
from afterword.errors import AfterwordError

IN_FLIGHT = 16
"""Lines being scored at once, so that the engine can batch them and share what they have in common."""

LARGEST_EXPONENT = math.log(sys.float_info.max)

FILE = argument("file", str, "A text a line, in UTF-8; - reads stdin.")


class ScoringFailed(AfterwordError):
    """A line could not be scored; the message says which and why."""


@with_options(BACKEND_OPTIONS, [FILE])
def score(values: Mapping[str, Any]) -> None:
    """Score each line of a file: one JSON object a line, in the same order.

    text, tokens (how many), sum_logprob, mean_logprob and perplexity. The first token of a text has nothing before it
    and no probability, so a text of one token has null for the last two. A perplexity beyond all numbers is null too.

    \b
    Examples:
      afterword score sentences.txt > scores.jsonl
      sort -u words.txt | afterword score - --url http://127.0.0.1:8000
    """
    lines = _lines(values["file"])
    asyncio.run(_score(open_backend(values), lines))


async def _score(backend: Backend, lines: Sequence[str]) -> None:
    """Print the scores in the order of the lines, with a window of `IN_FLIGHT` requests running ahead."""
    from afterword.api.wire import dumps

    numbered = enumerate(lines, start=1)
    window: deque[asyncio.Task[dict[str, Any]]] = deque()
    try:
        with _progress() as progress:
            for _ in progress.track(lines, description="Scoring"):
                for number, line in islice(numbered, IN_FLIGHT - len(window)):
                    window.append(asyncio.create_task(_score_line(backend, number, line)))
                row = await window[0]
                window.popleft()
                write_json(dumps(row))
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


async def _score_line(backend: Backend, number: int, line: str) -> dict[str, Any]:
    request = {"prompt": line, "echo": True, "logprobs": 0, "max_tokens": 0}
    try:
        body = await backend.answer(request)
    except AfterwordError as error:
        raise ScoringFailed(f"Line {number} was not scored: {error}") from error
    logprobs = (body["choices"][0].get("logprobs") or {}).get("token_logprobs")
    if not isinstance(logprobs, list) or not all(value is None or isinstance(value, float | int) for value in logprobs):
        raise ScoringFailed(f"Line {number} was not scored: the server gives no log-probabilities of the prompt.")
    return summary(line, logprobs)


def summary(text: str, logprobs: Sequence[float | None]) -> dict[str, Any]:
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


def _lines(name: str) -> list[str]:
    """The lines without their ends; only a line feed ends one."""
    lines = read_text(name).split("\n")
    if lines[-1] == "":
        lines.pop()
    return [line.removesuffix("\r") for line in lines]
