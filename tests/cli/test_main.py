"""The program as a whole: version, help, and options that follow the tables they are made from."""

import pytest
from tests.cli.conftest import Afterword

from afterword import __version__
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
