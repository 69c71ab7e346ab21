"""`afterword accounts`: create and list the accounts that keys charge."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import typer

from afterword.cli.open_database import DATABASE_OPTIONS, opened
from afterword.cli.options import argument, with_options
from afterword.cli.rows import FORMAT_OPTION, format_of, print_rows
from afterword.gateway import accounts

ABOUT = "Accounts: who is charged for what a key uses."

NAME = argument("name", str, "Letters, digits, dots, dashes, underscores and @.")


@with_options(DATABASE_OPTIONS, [NAME])
def create(values: Mapping[str, Any]) -> None:
    """Make an account and print its id.

    \b
    Examples:
      afterword accounts create research
    """
    with opened(values) as database:
        account_id = accounts.create_account(database, values["name"], datetime.now(UTC))
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
    rows = [(one.name, one.id, one.n_keys, one.created.isoformat(timespec="seconds")) for one in records]
    print_rows(("name", "id", "live_keys", "created"), rows, form)
