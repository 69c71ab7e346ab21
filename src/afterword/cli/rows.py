"""Writes rows to stdout: as a table for people, as CSV or JSON for programs."""

import csv
import shutil
import sys
from collections.abc import Sequence
from typing import Any, Literal

import orjson
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from afterword.cli.json_output import write_json
from afterword.cli.options import Option
from afterword.config.refusal import read_option
from afterword.text.brief import plain

Format = Literal["table", "csv", "json"]

FORMAT_OPTION = Option("format", ("--format",), str, "table, csv or json. [default: table]", "FORMAT")

GAP = "  "
"""Between two columns."""

NONE = "-"
"""Shown for None."""


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
            write_json(orjson.dumps(objects, option=orjson.OPT_INDENT_2))
        case _:
            print_table(columns, rows, last)


def print_table(columns: Sequence[str], rows: Sequence[Sequence[Any]], last: Sequence[Any] = ()) -> None:
    """Write a table, on a terminal no wider than that (docs/rules.md#tables).

    Lines are broken between words only, so that what is in it can be copied; where even that is too wide each row is a
    block of lines.
    """
    titles = [name.replace("_", " ").capitalize() for name in columns]
    cells = [[_shown(value) for value in row] for row in [*rows, *([last] if last else [])]]
    gaps = len(GAP) * (len(titles) - 1)
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else sys.maxsize
    widths = _widths([titles, *cells], width - gaps)
    if widths is None:
        _print_blocks(titles, cells)
        return
    table = Table(box=None, pad_edge=False, padding=(0, len(GAP), 0, 0))
    for number, title in enumerate(titles):
        counts = any(isinstance(row[number], int) for row in rows)
        table.add_column(title, justify="right" if counts else "left", width=widths[number], overflow="fold")
    for row in cells:
        table.add_row(*map(Text, row))
    Console(width=sum(widths) + gaps).print(table)


def _widths(lines: Sequence[Sequence[str]], available: int) -> list[int] | None:
    """Columns that each column of cells gets, the widest giving way first; None if words would have to be cut."""
    columns = list(zip(*lines, strict=True))
    least = [max(cell_len(word) for cell in column for word in cell.split(" ")) for column in columns]
    widths = [max(cell_len(cell) for cell in column) for column in columns]
    while sum(widths) > available:
        wide = [number for number, width in enumerate(widths) if width > least[number]]
        if not wide:
            return None
        widths[max(wide, key=widths.__getitem__)] -= 1
    return widths


def _print_blocks(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A line for each cell that holds anything, its title in front; an empty line between rows."""
    width = max(map(cell_len, titles))
    blocks = [
        "".join(
            f"{title:<{width}}{GAP}{cell}\n" for title, cell in zip(titles, row, strict=True) if cell not in ("", NONE)
        )
        for row in rows
    ]
    sys.stdout.write("\n".join(blocks))


def _shown(value: Any) -> str:
    if isinstance(value, int):
        return f"{value:,}"
    # What clients have written must neither colour the table nor move the cursor.
    return NONE if value is None else plain(_plain(value))


def _plain(value: Any) -> Any:
    return ", ".join(value) if isinstance(value, list) else value
