"""`afterword keys`: create, list, rotate and revoke API keys."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import typer

from afterword.cli.open_database import DATABASE_OPTIONS, opened
from afterword.cli.options import Option, argument, with_options
from afterword.cli.rows import FORMAT_OPTION, format_of, print_rows
from afterword.cli.times import future
from afterword.config.refusal import read_option
from afterword.config.values import KeyLimit, Priority
from afterword.gateway.grant import KeyLimits
from afterword.gateway.key import id_of
from afterword.gateway.key_store import KeyRecord, KeyTerms, create_key, list_keys, revoke_key, rotate_key

ABOUT = "API keys: who may use the server, for what and how much. A key is shown once, when it is made."

NAME = argument("name", str, "What to call it: letters, digits, dots, dashes, underscores and @.")
KEY = argument("key", str, "Its id, its name if no other live key has that, or the whole key.")

COLUMNS = (
    "id",
    "name",
    "account",
    "state",
    "models",
    "requests_per_minute",
    "tokens_per_minute",
    "concurrent_requests",
    "concurrent_tokens",
    "priority",
    "created",
    "expires",
    "last_used",
)

TERMS = [
    Option("account", ("--account",), str, "Account it charges, by name or id. [default: default]", "ACCOUNT"),
    Option(
        "model", ("--model",), list[str], "Full name of a model it may use. May be repeated. [default: all]", "MODEL"
    ),
    Option("expires", ("--expires",), str, "A date, a moment in UTC, or a span such as 30d. [default: never]", "WHEN"),
    Option("requests_per_minute", ("--requests-per-minute",), str, "[default: no limit]", "N"),
    Option("tokens_per_minute", ("--tokens-per-minute",), str, "Prompt and completion. [default: no limit]", "N"),
    Option("concurrent_requests", ("--concurrent-requests",), str, "At the same time. [default: no limit]", "N"),
    Option(
        "concurrent_tokens",
        ("--concurrent-tokens",),
        str,
        "Of all requests that run or wait at the same time. [default: no limit]",
        "N",
    ),
    Option(
        "priority",
        ("--priority",),
        str,
        "Of its requests; lower is earlier. May be negative. [default: that of its account]",
        "N",
    ),
]

ALL = Option("all", ("--all",), bool, "Also those that were revoked or have expired.")
GRACE = Option(
    "grace", ("--grace",), str, "How long the old secret stays good: 1h, 2d... [default: not at all]", "WHEN"
)


@with_options([*TERMS, *DATABASE_OPTIONS], [NAME])
def create(values: Mapping[str, Any]) -> None:
    """Make a key and print it: the one time that it is shown.

    \b
    Examples:
      afterword keys create laptop
      afterword keys create crawler --account research --model local/echo --expires 30d
      afterword keys create app --requests-per-minute 60 --tokens-per-minute 40000 --concurrent-requests 4
    """
    now = datetime.now(UTC)
    terms = KeyTerms(
        name=values["name"],
        account=values["account"],
        models=values["model"] or None,
        limits=KeyLimits(**{name: _limit(name, values[name]) for name in KeyLimits.__slots__}),
        expires=None if values["expires"] is None else future(values["expires"], "--expires", now),
        priority=None if values["priority"] is None else read_option(Priority, values["priority"], "--priority"),
    )
    with opened(values) as database:
        text = create_key(database, terms, now)
        _show_once(text, f"Made the key {terms.name} in {database.name}")


@with_options([ALL, FORMAT_OPTION, *DATABASE_OPTIONS])
def list_all(values: Mapping[str, Any]) -> None:
    """List the live keys, without their secrets, which nobody knows.

    \b
    Examples:
      afterword keys list
      afterword keys list --all --format csv
    """
    form = format_of(values["format"])
    now = datetime.now(UTC)
    with opened(values) as database:
        records = list_keys(database)
    shown = [record for record in records if values["all"] or record.state(now) == "live"]
    print_rows(COLUMNS, [_row(record, now) for record in shown], form)


@with_options(DATABASE_OPTIONS, [KEY])
def revoke(values: Mapping[str, Any]) -> None:
    """Make a key worthless, for good and within two seconds.

    \b
    Examples:
      afterword keys revoke laptop
      afterword keys revoke 3fGh7JkLmN0p
    """
    with opened(values) as database:
        record = revoke_key(database, values["key"], datetime.now(UTC))
    typer.echo(f"Revoked the key {record.name} ({record.id}).", err=True)


@with_options([GRACE, *DATABASE_OPTIONS], [KEY])
def rotate(values: Mapping[str, Any]) -> None:
    """Give a key a new secret and print it. Its id, account, limits and usage stay.

    \b
    Examples:
      afterword keys rotate laptop
      afterword keys rotate laptop --grace 24h
    """
    now = datetime.now(UTC)
    until = None if values["grace"] is None else future(values["grace"], "--grace", now)
    with opened(values) as database:
        text = rotate_key(database, values["key"], now, until)
    old = "worth nothing any more" if until is None else f"good until {until.isoformat(timespec='seconds')}"
    _show_once(text, f"Made a new secret; the old one is {old}")


def _show_once(text: str, done: str) -> None:
    """The key alone goes to stdout, so that a script can keep it."""
    typer.echo(text)
    typer.echo(
        f"{done} (id {id_of(text.encode('ascii'))}). Keep it now: it is not shown again. Clients send it as "
        "'Authorization: Bearer KEY'.",
        err=True,
    )


def _limit(name: str, given: str | None) -> int | None:
    return None if given is None else read_option(KeyLimit, given, "--" + name.replace("_", "-"))


def _row(record: KeyRecord, now: datetime) -> tuple[Any, ...]:
    return (
        record.id,
        record.name,
        record.account_name,
        record.state(now),
        None if record.models is None else sorted(record.models),
        record.limits.requests_per_minute,
        record.limits.tokens_per_minute,
        record.limits.concurrent_requests,
        record.limits.concurrent_tokens,
        record.priority,
        record.created.isoformat(timespec="seconds"),
        None if record.expires is None else record.expires.isoformat(timespec="seconds"),
        None if record.last_used is None else record.last_used.isoformat(),
    )
