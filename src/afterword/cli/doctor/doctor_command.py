"""`afterword doctor`, the command: runs all checks, prints what they found, and exits with 1 if something is wrong.

docs/rules.md#doctor
"""

from collections.abc import Mapping
from typing import Any

import orjson
import typer

from afterword.cli.doctor.finding import Finding
from afterword.cli.json_output import write_json
from afterword.cli.options import Option, setting_options, with_options
from afterword.cli.rows import print_table
from afterword.config.tree import SETTINGS

JSON = Option("json", ("--json",), bool, "JSON instead of a table.")
ASK_VENDORS = Option("ask_vendors", ("--ask-vendors",), bool, "Ask the vendors about their models.")
LOAD = Option("load", ("--load",), bool, "Load the models too, one after the other: seconds to minutes.")


@with_options([JSON, ASK_VENDORS, LOAD, *setting_options(setting.name for setting in SETTINGS)])
def doctor(values: Mapping[str, Any]) -> None:
    """Say what machine, build, models and services look like, and what is wrong.

    Takes the settings of `afterword serve`, and starts nothing: a database is not made or updated, a model is not
    loaded without --load. Exits with 1 if something is wrong that would keep the server from serving.

    \\b
    Examples:
      afterword doctor
      afterword doctor --config production.toml --ask-vendors
      afterword doctor --model ~/models/mistral-7b.Q4_K_M.gguf --load --json
    """
    # Below the help, which needs none of what the checks need.
    from afterword.cli.doctor.report import report

    found = list(report(values, ask_vendors=bool(values["ask_vendors"]), load=bool(values["load"])))
    if values["json"]:
        write_json(orjson.dumps([_as_json(finding) for finding in found], option=orjson.OPT_INDENT_2))
    else:
        print_table(("about", "what", "found", "remark"), [_row(finding) for finding in found])
    if any(finding.wrong is not None for finding in found):
        raise typer.Exit(1)


def _row(finding: Finding) -> tuple[str | None, ...]:
    remark = f"WRONG: {finding.wrong}" if finding.wrong is not None else finding.advice
    return finding.about, finding.what, "?" if finding.found is None else finding.found, remark or ""


def _as_json(finding: Finding) -> dict[str, str | None]:
    return {
        "about": finding.about,
        "what": finding.what,
        "found": finding.found,
        "wrong": finding.wrong,
        "advice": finding.advice,
    }
