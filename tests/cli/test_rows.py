"""Rows as tables, CSV and JSON."""

import sys

import pytest

from afterword.cli.rows import format_of, print_rows
from afterword.errors import ConfigurationError

COLUMNS = ("name", "n_tokens", "models")
ROWS = [("a,b", 1234567, ["local/a", "local/b"]), (None, 0, None)]


def test_a_table_is_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    print_rows(COLUMNS, ROWS, "table", last=("Total", 1234567, ""))
    assert [line.rstrip() for line in capsys.readouterr().out.splitlines()] == [
        "Name    N tokens  Models",
        "a,b    1,234,567  local/a, local/b",
        "-              0  -",
        "Total  1,234,567",
    ]


WIDE = [("an-id-of-30-characters-in-all-", "two words", 1234567), ("b", None, 3)]


@pytest.mark.parametrize(
    ("columns", "lines"),
    [
        pytest.param(
            54,
            [
                "Id                              Some title          N",
                "an-id-of-30-characters-in-all-  two words   1,234,567",
                "b                               -                   3",
            ],
            id="as wide as it is",
        ),
        pytest.param(
            50,
            [
                "                                Some",
                "Id                              title            N",
                "an-id-of-30-characters-in-all-  two      1,234,567",
                "                                words",
                "b                               -                3",
            ],
            id="words under each other",
        ),
        pytest.param(
            40,
            [
                "Id          an-id-of-30-characters-in-all-",
                "Some title  two words",
                "N           1,234,567",
                "",
                "Id          b",
                "N           3",
            ],
            id="blocks",
        ),
    ],
)
def test_cli_05_nothing_is_cut_on_a_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, columns: int, lines: list[str]
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    print_rows(("id", "some_title", "n"), WIDE, "table")
    assert [line.rstrip() for line in capsys.readouterr().out.splitlines()] == lines


def test_csv_has_plain_numbers_and_no_sums(capsys: pytest.CaptureFixture[str]) -> None:
    print_rows(COLUMNS, ROWS, "csv", last=("Total", 1234567, ""))
    assert capsys.readouterr().out == 'name,n_tokens,models\n"a,b",1234567,"local/a, local/b"\n,0,\n'


def test_json_is_a_list_of_objects(capsys: pytest.CaptureFixture[str]) -> None:
    print_rows(COLUMNS, ROWS[:1], "json")
    assert "".join(capsys.readouterr().out.split()) == (
        '[{"name":"a,b","n_tokens":1234567,"models":["local/a","local/b"]}]'
    )


def test_what_clients_wrote_neither_colours_a_table_nor_moves_the_cursor(capsys: pytest.CaptureFixture[str]) -> None:
    print_rows(("user",), [("[red]a[/red]",), ("b\x1b[2J\r\nc",)], "table")
    assert [line.rstrip() for line in capsys.readouterr().out.splitlines()] == [
        "User",
        "[red]a[/red]",
        r"b\x1b[2J\r\nc",
    ]


def test_an_unknown_format_is_refused() -> None:
    assert format_of(None) == "table"
    with pytest.raises(ConfigurationError, match="--format is 'xml': it must be one of table, csv, json"):
        format_of("xml")
