"""Bytes that are no UTF-8, and terminals that have not every character: a sentence each, never a traceback."""

import json
import os
from pathlib import Path

import pytest
from tests.cli import terminal
from tests.models.engines import kept_tiny
from tests.models.tiny import Tiny

NOT_UTF_8 = b"caf\xe9"
LATIN_1 = "latin-1"


def sentence(ran: terminal.Ran) -> str:
    """What a command said that failed for a reason of the user's."""
    assert ran.code in (1, 2), ran
    assert ran.stdout == b""
    (line,) = ran.stderr.decode("ascii").splitlines()
    assert line.startswith("Error: ")
    assert line.endswith(".")
    return line


@pytest.mark.parametrize("command", ["complete", "score"])
def test_cli_07_stdin_that_is_no_utf_8(tmp_path: Path, command: str) -> None:
    said = sentence(terminal.run(command, "-", folder=tmp_path, stdin=NOT_UTF_8))
    assert said.startswith("Error: What was piped in cannot be read: 'utf-8' codec can't decode byte 0xe9")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param(["complete", NOT_UTF_8], "'prompt' is not valid Unicode: ", id="prompt"),
        pytest.param(["complete", "a", "--stop", NOT_UTF_8], "'stop' is not valid Unicode: ", id="field"),
        pytest.param(["complete", "a", "--model", NOT_UTF_8], r"--model is 'caf\udce9': it must be", id="model"),
        pytest.param(["serve", "--api-key", NOT_UTF_8], r"--api-key is ", id="key"),
        pytest.param(["score", NOT_UTF_8], r"caf\udce9 cannot be read: ", id="file"),
        pytest.param(
            ["complete", "a", "--url", b"http://" + NOT_UTF_8], r"--url is 'http://caf\udce9': ", id="address"
        ),
        pytest.param(["keys", "create", NOT_UTF_8], r"The name of a key is 'caf\udce9': ", id="name"),
        pytest.param(["usage", "--by", NOT_UTF_8], r"--by is 'caf\udce9': ", id="option of its own"),
    ],
)
def test_cli_07_arguments_that_are_no_utf_8(tmp_path: Path, arguments: list[str | bytes], message: str) -> None:
    assert sentence(terminal.run(*arguments, folder=tmp_path)).startswith(f"Error: {message}")


def test_cli_07_a_variable_that_is_no_utf_8(tmp_path: Path) -> None:
    environment = terminal.settings(tmp_path, AFTERWORD_MODEL=os.fsdecode(NOT_UTF_8 + b".gguf"))
    said = sentence(terminal.run("models", folder=tmp_path, environment=environment))
    assert said == r"Error: AFTERWORD_MODEL is 'caf\udce9.gguf': it must be in UTF-8."


def test_cli_07_a_model_in_a_folder_whose_name_is_no_utf_8(tmp_path: Path) -> None:
    folder = tmp_path / os.fsdecode(NOT_UTF_8)
    folder.mkdir()
    (folder / "m.gguf").symlink_to(kept_tiny(Tiny()))
    environment = terminal.settings(tmp_path)
    said = sentence(terminal.run("complete", "a", "--model", "m.gguf", folder=folder, environment=environment))
    assert said.startswith("Error: The model's path is '")
    assert said.endswith("m.gguf': it must be in UTF-8, with all its folders.")


def test_cli_07_text_for_a_terminal_that_lacks_its_characters(tmp_path: Path) -> None:
    environment = terminal.settings(tmp_path, PYTHONIOENCODING=LATIN_1)
    greedy = ("--temperature", "0", "--max-tokens", "0", "--echo")
    written = terminal.run("complete", "caf\u00e9", *greedy, folder=tmp_path, environment=environment)
    assert (written.code, written.stdout) == (0, NOT_UTF_8)
    said = sentence(terminal.run("complete", "5 \u20ac", *greedy, folder=tmp_path, environment=environment))
    assert said == r"Error: The output has '\u20ac', which latin-1 cannot write: set PYTHONIOENCODING=utf-8."


@pytest.mark.parametrize("command", [("complete", "5 \u20ac", "--json", "--echo"), ("score", "-")], ids=" ".join)
def test_cli_07_json_is_utf_8_everywhere(tmp_path: Path, command: tuple[str, ...]) -> None:
    environment = terminal.settings(tmp_path, PYTHONIOENCODING=LATIN_1)
    ran = terminal.run(*command, folder=tmp_path, stdin="5 \u20ac".encode(), environment=environment)
    assert ran.code == 0, ran
    assert "5 \u20ac" in json.dumps(json.loads(ran.stdout.decode("utf-8")), ensure_ascii=False)


def test_cli_07_progress_on_a_terminal_that_lacks_its_characters(tmp_path: Path) -> None:
    environment = terminal.settings(tmp_path, PYTHONIOENCODING=LATIN_1)
    ran = terminal.run("score", "-", folder=tmp_path, terminal=("stderr",), stdin=b"a\nb\n", environment=environment)
    assert (ran.code, len(ran.stdout.splitlines())) == (0, 2)
