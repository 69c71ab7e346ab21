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


def test_the_version_is_printed(afterword: Afterword) -> None:
    assert afterword("--version").stdout == f"afterword {__version__}\n"


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


@pytest.mark.parametrize("command", ["", "serve", "complete", "score"])
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
    assert refusal.startswith("Error: The file ")
