"""`afterword accounts`: create and list the accounts that keys charge."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import typer

from afterword.cli.open_database import DATABASE_OPTIONS, opened
from afterword.cli.options import Option, argument, with_options
from afterword.cli.rows import FORMAT_OPTION, format_of, print_rows
from afterword.config.refusal import read_option
from afterword.config.values import Priority
from afterword.gateway import accounts

ABOUT = "Accounts: who is charged for what a key uses."

NAME = argument("name", str, "Letters, digits, dots, dashes, underscores and @.")


PRIORITY = Option(
    "priority", ("--priority",), str, "Of its keys' requests; lower is earlier. May be negative. [default: 0]", "N"
)


@with_options([PRIORITY, *DATABASE_OPTIONS], [NAME])
def create(values: Mapping[str, Any]) -> None:
    """Make an account and print its id.

    \b
    Examples:
      afterword accounts create research
      afterword accounts create batch --priority 10
    """
    given = values["priority"]
    priority = 0 if given is None else read_option(Priority, given, "--priority")
    with opened(values) as database:
        account_id = accounts.create_account(database, values["name"], datetime.now(UTC), priority)
    typer.echo(account_id)
    typer.echo(f"Made the account {values['name']}. Keys for it: afterword keys create NAME --account ...", err=True)


@with_options([FORMAT_OPTION, *DATABASE_OPTIONS])
def list_all(values: Mapping[str, Any]) -> None:
    """List the accounts, each with how many live keys it has.

    \b
    Examples:
      afterword accounts list
      afterword accounts list --format json
    """
    form = format_of(values["format"])
    with opened(values) as database:
        records = accounts.list_accounts(database, datetime.now(UTC))
    rows = [(one.name, one.id, one.n_keys, one.priority, one.created.isoformat(timespec="seconds")) for one in records]
    print_rows(("name", "id", "live_keys", "priority", "created"), rows, form)
