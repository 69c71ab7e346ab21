"""The program as a whole: version, help, and options that follow the tables they are made from."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from tests.cli import terminal
from tests.cli.conftest import Afterword

from afterword import __version__
from afterword.cli.main import COMMANDS
from afterword.cli.parameters import NOT_OPTIONS
from afterword.config.tree import SETTINGS
from afterword.fields.table import FIELDS


@pytest.mark.parametrize("option", ["--version", "-V"])
def test_cli_11_the_version_is_printed(afterword: Afterword, option: str) -> None:
    assert afterword(option).stdout == f"afterword {__version__}\n"


@pytest.mark.parametrize("command", [(), ("serve",), ("keys",), ("keys", "create"), ("models", "export"), ("cluster",)])
def test_cli_11_help_has_a_short_option_everywhere(afterword: Afterword, command: tuple[str, ...]) -> None:
    shown = afterword(*command, "-h")
    assert (shown.exit_code, shown.stdout) == (0, afterword(*command, "--help").stdout)


@pytest.mark.parametrize(
    ("words", "offered"),
    [("afterword co", "complete"), ("afterword keys ro", "rotate"), ("afterword serve --max-w", "--max-waiting")],
)
def test_cli_11_shells_complete_commands_and_options(tmp_path: Path, words: str, offered: str) -> None:
    asking = {"_AFTERWORD_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
    program = "import sys; sys.argv[0] = 'afterword'; from afterword.cli.main import app; app()"
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=terminal.settings(tmp_path, **asking),
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.stdout.splitlines() == [offered], done.stderr


@pytest.mark.parametrize(("no_color", "coloured"), [(None, True), ("", True), ("1", False)], ids=str)
def test_cli_11_log_lines_have_no_colour_where_none_is_wanted(
    tmp_path: Path, no_color: str | None, coloured: bool
) -> None:
    (tmp_path / "no.gguf").write_bytes(b"no model")
    environment = terminal.settings(tmp_path, **({} if no_color is None else {"NO_COLOR": no_color}))
    arguments = ("serve", "--model", "no.gguf", "--port", "0")
    ran = terminal.run(*arguments, folder=tmp_path, terminal=("stderr",), environment=environment)
    assert "loading" in ran.terminal
    assert ("\x1b[" in ran.terminal) == coloured


def test_every_setting_is_an_option_of_serve(afterword: Afterword) -> None:
    shown = afterword("serve", "--help").stdout
    assert [setting.flag for setting in SETTINGS if f"{setting.flag} " not in shown] == []


def test_every_field_of_a_request_is_an_option_of_complete(afterword: Afterword) -> None:
    shown = afterword("complete", "--help").stdout
    flags = ["--" + field.name.replace("_", "-") for field in FIELDS if field.name not in NOT_OPTIONS]
    assert [flag for flag in flags if f"{flag} " not in shown] == []


@pytest.mark.parametrize("command", ["serve", "complete", "score", "models"])
def test_every_help_has_examples(afterword: Afterword, command: str) -> None:
    assert f"  Examples:\n    afterword {command}" in afterword(command, "--help").stdout


@pytest.mark.parametrize("arguments", [["serve", "--nope"], ["complete"], ["nope"]], ids=" ".join)
def test_a_wrong_command_line_ends_with_2(afterword: Afterword, arguments: list[str]) -> None:
    assert afterword(*arguments).exit_code == 2


@pytest.mark.parametrize("command", COMMANDS)
def test_the_list_of_commands_says_what_the_command_s_own_help_begins_with(command: str) -> None:
    about, build = COMMANDS[command]
    told = typer.main.get_command(build()).help
    assert told is not None
    assert told.replace("\n", " ").startswith(about)


TAKE_LONG = {"numpy", "fastapi", "uvicorn", "sqlalchemy", "alembic", "httpx", "llama_cpp", "prometheus_client"}
"""Libraries that take a tenth of a second or more to load."""

SHOW_HELP = """
import json, sys
from afterword.cli.main import app
try:
    app([*sys.argv[1:], "--help"])
except SystemExit:
    sys.stderr.write(json.dumps(sorted(sys.modules)))
"""


@pytest.mark.parametrize("command", ["", "serve", "complete", "score", "doctor"])
def test_cli_06_help_does_not_wait_for_what_it_does_not_need(tmp_path: Path, command: str) -> None:
    arguments = [command] if command else []
    done = subprocess.run(
        [sys.executable, "-c", SHOW_HELP, *arguments],
        cwd=tmp_path,
        env=terminal.settings(tmp_path),
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert "Usage: " in done.stdout
    assert TAKE_LONG & set(json.loads(done.stderr)) == set()


@pytest.mark.parametrize("command", [("complete", "ab", "--max-tokens", "2"), ("score", "-")], ids=" ".join)
def test_cli_06_a_person_sees_that_a_model_is_loading(tmp_path: Path, command: tuple[str, ...]) -> None:
    ran = terminal.run(*command, folder=tmp_path, terminal=("stdout", "stderr"), stdin=b"ab\n")
    assert ran.terminal.startswith("Loading echo (longer when it is the first time) ...\r\n")
    assert len(ran.terminal.splitlines()) > 1


def test_cli_06_a_pipe_gets_no_such_line(tmp_path: Path) -> None:
    ran = terminal.run("complete", "ab", "--max-tokens", "2", folder=tmp_path)
    assert b"Loading" not in ran.stdout + ran.stderr


def test_cli_06_a_server_logs_what_it_loads(tmp_path: Path) -> None:
    (tmp_path / "no.gguf").write_bytes(b"no model")
    ran = terminal.run("serve", "--model", "no.gguf", "--port", "0", "--log-format", "json", folder=tmp_path)
    line, refusal = ran.stderr.decode().splitlines()
    assert (json.loads(line)["event"], json.loads(line)["models"]) == ("loading", ["no"])
    assert refusal.startswith("Error: The model file ")
