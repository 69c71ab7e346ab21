"""`afterword score` of pairs and choices: rows of both forms, and going on where it stopped."""

import csv
import io
import json
import math
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import KEY, Afterword

QUESTIONS: list[dict[str, Any]] = [
    {"prompt": "hello", "continuations": [" world", "h", " there"]},
    {"prompt": [104, 105], "continuations": [[104], "x"]},
    {"prompt": 'a, "b"', "continuations": ["\nnew line", " c"]},
]
CHOICES = "".join(json.dumps(question) + "\n" for question in QUESTIONS)
PAIRS = '["hello", " world"]\n{"prompt": "ab", "continuation": "a"}\n'


def rows(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.split("\n")[:-1]]


def test_choices_have_a_row_each_and_the_likeliest_is_marked(afterword: Afterword) -> None:
    result = afterword("score", "-", "--kind", "choices", stdin=CHOICES)
    assert result.exit_code == 0, result.stderr
    found = rows(result.stdout)
    assert [(row["line"], row["choice"], row["continuation"]) for row in found] == [
        (number, choice, continuation)
        for number, question in enumerate(QUESTIONS, start=1)
        for choice, continuation in enumerate(question["continuations"])
    ]
    assert [row["is_best"] for row in found[:3]] == [False, True, False]
    assert found[1]["is_greedy"] is True
    assert found[0]["mean_logprob"] == pytest.approx(found[0]["sum_logprob"] / found[0]["tokens"])


def test_a_pair_has_the_score_that_its_text_gives(afterword: Afterword) -> None:
    pair, _ = rows(afterword("score", "-", "--kind", "pairs", stdin=PAIRS).stdout)
    whole, begun = rows(afterword("score", "-", stdin="hello world\nhello\n").stdout)
    assert pair["sum_logprob"] == pytest.approx(math.fsum([whole["sum_logprob"], -begun["sum_logprob"]]))
    assert list(pair)[:3] == ["prompt", "continuation", "tokens"]


@pytest.mark.parametrize(("kind", "lines"), [("text", 'a,b\n"q"\n\n'), ("pairs", PAIRS), ("choices", CHOICES)])
def test_csv_has_what_json_has(afterword: Afterword, kind: str, lines: str) -> None:
    objects = rows(afterword("score", "-", "--kind", kind, stdin=lines).stdout)
    table = list(
        csv.DictReader(io.StringIO(afterword("score", "-", "--kind", kind, "--format", "csv", stdin=lines).stdout))
    )
    shown = [
        {
            name: "" if value is None else value if isinstance(value, str) else json.dumps(value)
            for name, value in row.items()
        }
        for row in objects
    ]
    assert table == shown


@pytest.mark.parametrize("form", ["json", "csv"])
@pytest.mark.parametrize(("kind", "lines"), [("pairs", PAIRS), ("choices", CHOICES)])
def test_it_goes_on_where_it_stopped_wherever_that_was(
    afterword: Afterword, tmp_path: Path, kind: str, lines: str, form: str
) -> None:
    arguments = ("score", "-", "--kind", kind, "--format", form, "--output", "scores")
    assert afterword(*arguments, stdin=lines).exit_code == 0
    whole = (tmp_path / "scores").read_bytes()
    for n_bytes in range(0, len(whole) + 1, 37):
        (tmp_path / "scores").write_bytes(whole[:n_bytes])
        result = afterword(*arguments, stdin=lines)
        assert result.exit_code == 0, (n_bytes, result.stderr)
        assert (tmp_path / "scores").read_bytes() == whole
    assert sorted(path.name for path in tmp_path.iterdir() if "scores" in path.name) == ["scores"]


def test_what_is_there_is_not_computed_again(afterword: Afterword, tmp_path: Path) -> None:
    arguments = ("score", "-", "--kind", "pairs", "--output", "scores")
    afterword(*arguments, stdin=PAIRS)
    first, second = rows((tmp_path / "scores").read_text())
    first["sum_logprob"] = 7
    (tmp_path / "scores").write_text(json.dumps(first) + "\n")
    afterword(*arguments, stdin=PAIRS)
    assert rows((tmp_path / "scores").read_text()) == [first, second]


@pytest.mark.parametrize(
    ("there", "said"),
    [
        pytest.param('{"prompt": "other", "continuation": "x"}\n', "rows of something else", id="other rows"),
        pytest.param("no json\n", "cannot be gone on with", id="no rows"),
        pytest.param("[1]\n", "no JSON objects", id="no objects"),
    ],
)
def test_a_file_of_something_else_is_left_alone(afterword: Afterword, tmp_path: Path, there: str, said: str) -> None:
    (tmp_path / "scores").write_text(there)
    result = afterword("score", "-", "--kind", "pairs", "--output", "scores", stdin=PAIRS)
    assert (result.exit_code, said in result.stderr) == (2, True), result.stderr
    assert (tmp_path / "scores").read_text() == there


@pytest.mark.parametrize(
    ("kind", "line", "said"),
    [
        ("pairs", "nonsense", "Line 1 is not JSON"),
        ("pairs", '["a"]', "Line 1 is not an array of two"),
        ("choices", '{"prompt": "a", "continuations": []}', "Line 1 is not an object with"),
        ("questions", "{}", "--kind"),
    ],
)
def test_lines_of_another_kind_are_named(afterword: Afterword, kind: str, line: str, said: str) -> None:
    result = afterword("score", "-", "--kind", kind, stdin=line + "\n")
    assert (result.exit_code, said in result.stderr) == (2, True), result.stderr


def test_a_line_that_is_refused_is_named(afterword: Afterword) -> None:
    result = afterword("score", "-", "--kind", "pairs", stdin='["a", ""]\n')
    assert "Error: Line 1 was not scored: " in result.stderr
    assert result.exit_code == 1


def test_a_server_scores_alike(afterword: Afterword, server: str) -> None:
    local = afterword("score", "-", "--kind", "choices", stdin=CHOICES)
    remote = afterword(
        "score", "-", "--kind", "choices", "--url", server, "--api-key", KEY, "--model", "second", stdin=CHOICES
    )
    assert local.stdout == remote.stdout != ""
