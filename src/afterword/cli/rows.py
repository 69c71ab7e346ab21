"""Rows of facts on stdout: as a table for people, as CSV or JSON for programs. Knows nothing of what they mean."""

import csv
import sys
from collections.abc import Sequence
from typing import Any, Literal

import orjson
from rich.console import Console
from rich.table import Table
from rich.text import Text

from afterword.cli.options import Option
from afterword.config.refusal import read_option

Format = Literal["table", "csv", "json"]

FORMAT_OPTION = Option("format", ("--format",), str, "table, csv or json. [default: table]", "FORMAT")

WIDTH_WITHOUT_TERMINAL = 240
"""Columns where there is no terminal to ask: wide enough that paths stay whole for the next program."""


def format_of(given: str | None) -> Format:
    """The chosen format. Raises `ConfigurationError`."""
    form: Format = read_option(Format, "table" if given is None else given, "--format")
    return form


def print_rows(columns: Sequence[str], rows: Sequence[Sequence[Any]], form: Format, last: Sequence[Any] = ()) -> None:
    """Write rows of str, int, None or lists of str; `last` is a row that only a table gets: the sums."""
    match form:
        case "csv":
            writer = csv.writer(sys.stdout, lineterminator="\n")
            writer.writerow(columns)
            writer.writerows([_plain(value) for value in row] for row in rows)
        case "json":
            objects = [dict(zip(columns, row, strict=True)) for row in rows]
            sys.stdout.write(orjson.dumps(objects, option=orjson.OPT_INDENT_2).decode() + "\n")
        case _:
            print_table(_table(columns, rows, last))


def print_table(table: Table) -> None:
    """Write a table, as wide as the terminal."""
    Console(width=None if sys.stdout.isatty() else WIDTH_WITHOUT_TERMINAL).print(table)


def _table(columns: Sequence[str], rows: Sequence[Sequence[Any]], last: Sequence[Any]) -> Table:
    table = Table(box=None, pad_edge=False)
    for number, name in enumerate(columns):
        counts = any(isinstance(row[number], int) for row in rows)
        table.add_column(name.replace("_", " ").capitalize(), justify="right" if counts else "left")
    for row in [*rows, *([last] if last else [])]:
        table.add_row(*(_shown(value) for value in row))
    return table


def _shown(value: Any) -> Text:
    if isinstance(value, int):
        return Text(f"{value:,}")
    text = "-" if value is None else _plain(value)
    # What clients have written must neither colour the table nor move the cursor.
    return Text("".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in text))


def _plain(value: Any) -> Any:
    return ", ".join(value) if isinstance(value, list) else value
