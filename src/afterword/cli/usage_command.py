"""`afterword usage`: sums of the ledger, and removal of old rows."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import typer

from afterword.cli.open_database import DATABASE_OPTIONS, opened
from afterword.cli.options import Option, invocation, with_options
from afterword.cli.rows import FORMAT_OPTION, format_of, print_rows
from afterword.cli.times import past
from afterword.errors import ConfigurationError
from afterword.gateway.usage import DIMENSIONS, Dimension, UsageSum, group_names, prune_usage, sum_usage

SUMS = ("requests", "failed", "prompt_tokens", "cached_tokens", "completion_tokens", "estimated")

BY = Option(
    "by", ("--by",), str, f"Any of {', '.join(DIMENSIONS)}, with commas between them. [default: day,model]", "LIST"
)
SINCE = Option("since", ("--since",), str, "First day or moment (UTC), or a span back from now such as 7d.", "WHEN")
UNTIL = Option("until", ("--until",), str, "The day or moment (UTC) before which it ends.", "WHEN")
BEFORE = Option(
    "before", ("--before",), str, "The day or moment (UTC) before which rows go, or a span such as 90d.", "WHEN"
)


@with_options([BY, SINCE, UNTIL, FORMAT_OPTION, *DATABASE_OPTIONS], [invocation()])
def show(values: Mapping[str, Any]) -> None:
    """What was used: the requests and tokens of the ledger, added up.

    Failed requests are those that were refused, broke, or were left by the client. Days and moments are UTC. Cached
    tokens are those of the prompt tokens that need not be computed. Estimated are requests whose tokens nobody counted:
    answers of vendors that broke, or that say nothing of what they used.

    \b
    Examples:
      afterword usage
      afterword usage --by account,model --since 2026-11-01 --until 2026-12-01
      afterword usage --by key --since 7d --format csv
    """
    if values["invocation"].invoked_subcommand is not None:
        return
    now = datetime.now(UTC)
    form = format_of(values["format"])
    by = _dimensions("day,model" if values["by"] is None else values["by"])
    since, until = (
        None if values[name] is None else past(values[name], f"--{name}", now) for name in ("since", "until")
    )
    with opened(values) as database:
        sums = sum_usage(database, by, since, until)
    columns = (*group_names(by), *SUMS)
    rows = [(*one.group.values(), *_counts(one)) for one in sums]
    totals = [sum(counts) for counts in zip(*(_counts(one) for one in sums), strict=True)]
    n_groups = len(columns) - len(SUMS)
    print_rows(columns, rows, form, last=("Total", *[""] * (n_groups - 1), *totals) if sums and by else ())


@with_options([BEFORE, *DATABASE_OPTIONS])
def prune(values: Mapping[str, Any]) -> None:
    """Remove the rows of old requests for good.

    \b
    Examples:
      afterword usage prune --before 2026-01-01
      afterword usage prune --before 365d
    """
    if values["before"] is None:
        raise ConfigurationError("--before is missing: it says which rows go.")
    before = past(values["before"], "--before", datetime.now(UTC))
    with opened(values) as database:
        n_rows = prune_usage(database, before)
    typer.echo(f"Removed {n_rows} rows from before {before.isoformat(timespec='seconds')}.", err=True)


def _dimensions(text: str) -> list[Dimension]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    found = [dimension for name in names for dimension in DIMENSIONS if dimension == name]
    if len(found) != len(names) or len(set(found)) != len(found):
        raise ConfigurationError(f"--by is {text!r}: it must be any of {', '.join(DIMENSIONS)}, each once at most.")
    return found


def _counts(one: UsageSum) -> tuple[int, ...]:
    return (one.requests, one.failed, one.prompt_tokens, one.cached_tokens, one.completion_tokens, one.estimated)
