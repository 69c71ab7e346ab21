"""`afterword score`: a row a line, in order, with sums that are what they say."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
from tests.cli import terminal
from tests.cli.conftest import KEY, Afterword

from afterword.cli.score_lines import summary


def rows(stdout: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stdout.splitlines()]


def test_every_line_has_a_row_in_order(afterword: Afterword, tmp_path: Path) -> None:
    lines = [f"line {number}" for number in range(50)]
    (tmp_path / "lines.txt").write_text("\n".join(lines) + "\n")
    result = afterword("score", "lines.txt")
    assert [row["text"] for row in rows(result.stdout)] == lines
    assert [row["tokens"] for row in rows(result.stdout)] == [len(line) for line in lines]
    assert "Scoring" in result.stderr
    assert result.exit_code == 0


@pytest.mark.parametrize(
    ("content", "texts"),
    [
        pytest.param("", [], id="no line"),
        pytest.param("a\n\nb\n", ["a", "", "b"], id="an empty line is a text"),
        pytest.param("a\r\nb", ["a", "b"], id="line ends"),
        pytest.param("\ufeffa\n\ufeffb\n", ["a", "\ufeffb"], id="cli-09 a byte order mark"),
        pytest.param("a\u2028b\x0bc\n", ["a\u2028b\x0bc"], id="only a line feed ends a line"),
    ],
)
def test_stdin_is_cut_at_line_feeds(afterword: Afterword, content: str, texts: list[str]) -> None:
    assert [row["text"] for row in rows(afterword("score", "-", stdin=content).stdout)] == texts


def test_a_server_scores_alike(afterword: Afterword, server: str) -> None:
    lines = "abab\nhello\n\n"
    local = afterword("score", "-", stdin=lines)
    remote = afterword("score", "-", "--url", server, "--api-key", KEY, "--model", "second", stdin=lines)
    assert local.stdout == remote.stdout
    assert len(rows(local.stdout)) == 3


@pytest.mark.parametrize(
    ("logprobs", "total", "mean", "perplexity"),
    [
        pytest.param([None, -1.0, -3.0], -4.0, -2.0, math.exp(2.0), id="two"),
        pytest.param([None, 0.0], 0.0, 0.0, 1.0, id="certain"),
        pytest.param([None], 0.0, None, None, id="one token"),
        pytest.param([None, -9999.0], -9999.0, -9999.0, None, id="impossible"),
    ],
)
def test_a_row_sums_up_what_is_known(
    logprobs: list[float | None], total: float, mean: float | None, perplexity: float | None
) -> None:
    assert summary("t", logprobs) == {
        "text": "t",
        "tokens": len(logprobs),
        "sum_logprob": total,
        "mean_logprob": mean,
        "perplexity": perplexity,
    }


def test_a_line_that_does_not_fit_is_named_after_the_rows_before_it(afterword: Afterword) -> None:
    result = afterword("score", "-", "--context", "5", stdin="abc\nabcdef\nabc\n")
    assert [row["text"] for row in rows(result.stdout)] == ["abc"]
    assert "Error: Line 2 was not scored: This model's maximum context length is 5 tokens" in result.stderr
    assert result.exit_code == 1


@pytest.mark.parametrize(("name", "content"), [("none.txt", None), ("bytes.txt", b"\xff\n")])
def test_a_file_that_cannot_be_read_is_named(
    afterword: Afterword, tmp_path: Path, name: str, content: bytes | None
) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    result = afterword("score", name)
    assert result.stderr.startswith(f"Error: {name} cannot be read: ")
    assert result.exit_code == 2


LINES = b"one\ntwo\nthree\nfour\nfive " + b"long " * 40 + b"\n"


def test_cli_01_rows_go_to_the_file_while_the_terminal_shows_the_progress(tmp_path: Path) -> None:
    ran = terminal.run("score", "-", folder=tmp_path, terminal=("stderr",), stdin=LINES)
    assert [row["text"] for row in rows(ran.stdout.decode())] == LINES.decode().splitlines()
    assert "Scoring" in ran.terminal
    assert "sum_logprob" not in ran.terminal


def test_cli_01_rows_on_a_terminal_are_whole_and_nothing_is_between_them(tmp_path: Path) -> None:
    ran = terminal.run("score", "-", folder=tmp_path, terminal=("stdout", "stderr"), stdin=LINES)
    _loading, _, shown = ran.terminal.partition("\r\n")
    assert [row["text"] for row in rows(shown)] == LINES.decode().splitlines()
    assert "\x1b" not in ran.terminal
