"""Where the rows of `afterword score` go: stdout, or a file in which it goes on where it stopped."""

import csv
import io
import json
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, Literal

from afterword.cli.score_lines import Line, Row
from afterword.errors import ConfigurationError

Form = Literal["json", "csv"]


class Output:
    """Rows as JSON lines or CSV, written whole line by whole line."""

    def __init__(self, form: Form, columns: Sequence[str], path: Path | None) -> None:
        """`path` None: stdout."""
        self._form = form
        self._columns = columns
        self._path = path
        self._file: BinaryIO | None = None

    def begin(self, lines: Sequence[Line]) -> int:
        """Open it. How many of `lines` it has rows of already: rows of a line that lacks others are cut off.

        Raises `ConfigurationError` if it cannot be read or written, or has rows of something else.
        """
        if self._path is None:
            self._write(self._head())
            return 0
        try:
            before = self._path.read_bytes() if self._path.is_file() else b""
            rows = self._rows(before)
            n_done, n_kept = _done(lines, rows, str(self._path))
            kept = self._head() + b"".join(map(self._spelled, rows[:n_kept]))
            if before not in (b"", kept):
                # Whole or as it was, whenever this ends.
                beside = self._path.with_name(self._path.name + ".part")
                beside.write_bytes(kept)
                os.replace(beside, self._path)
            self._file = self._path.open("ab")
            if before == b"":
                self._write(kept)
        except (OSError, ValueError, csv.Error) as error:
            raise ConfigurationError(f"{self._path} cannot be gone on with: {error}.") from error
        return n_done

    def add(self, rows: Sequence[Row]) -> None:
        """Write the rows of a line."""
        self._write(b"".join(map(self._spelled, rows)))

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()

    def _write(self, content: bytes) -> None:
        if self._file is None:
            sys.stdout.flush()
            sys.stdout.buffer.write(content)
        else:
            self._file.write(content)
            self._file.flush()

    def _head(self) -> bytes:
        return b"" if self._form == "json" else _csv_row(self._columns)

    def _spelled(self, row: Row) -> bytes:
        if self._form == "json":
            from afterword.api.wire import dumps

            return dumps(row) + b"\n"
        return _csv_row([_cell(row[name]) for name in self._columns])

    def _rows(self, content: bytes) -> list[Row]:
        """Those of a file, without one at its end that was not written whole."""
        text, end, _ = content.decode("utf-8").rpartition("\n")
        if end == "":
            return []
        if self._form == "json":
            found = [json.loads(line) for line in text.split("\n")]
            if not all(isinstance(row, dict) for row in found):
                raise ValueError("it has lines that are no JSON objects")
            return found
        reader = csv.DictReader(io.StringIO(text + "\n", newline=""), strict=True)
        if list(reader.fieldnames or ()) != list(self._columns):
            raise ValueError(f"its columns are not {', '.join(self._columns)}")
        rows: list[Row] = []
        # The last row may have been cut within a text of several lines.
        with suppress(csv.Error):
            for row in reader:
                rows.append(row)  # what came before an error counts
        return rows


def _done(lines: Sequence[Line], rows: Sequence[Row], name: str) -> tuple[int, int]:
    """How many of the first lines have all of their rows, and how many rows those are."""
    n_kept = 0
    for n_done, line in enumerate(lines):
        n_rows = len(line.continuations)
        if n_kept < len(rows) and not line.begins(rows[n_kept]):
            raise ConfigurationError(
                f"{name} has rows of something else: its row {n_kept + 1} is not of line {n_done + 1}."
            )
        if n_kept + n_rows > len(rows):
            return n_done, n_kept
        n_kept += n_rows
    if n_kept < len(rows):
        raise ConfigurationError(f"{name} has {len(rows)} rows, more than there are to write.")
    return len(lines), n_kept


def _csv_row(values: Sequence[object]) -> bytes:
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\n").writerow(values)
    return text.getvalue().encode("utf-8")


def _cell(value: object) -> object:
    """Numbers and texts as they are, what is no text as JSON."""
    return "" if value is None else value if isinstance(value, str) else json.dumps(value)
