"""Sums over the ledger, and removal of old rows. Everything here blocks."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from sqlalchemy import ColumnElement, Select, case, delete, func, select

from afterword.gateway.database import Database
from afterword.gateway.schema import AccountTable, KeyTable, UsageTable, utc_day

Dimension = Literal["day", "model", "key", "account", "user"]

DIMENSIONS: tuple[Dimension, ...] = ("day", "model", "key", "account", "user")

FAILED_FROM = 400
"""The lowest status of a request that was not answered in full; 499 is a client that left."""


@dataclass(frozen=True, slots=True)
class UsageSum:
    """The usage of some requests together."""

    group: dict[str, str | None]
    """What they have in common: a column for each dimension, two for a key. None: there was none."""
    requests: int
    failed: int
    """Of those: refused, failed or cancelled by the client."""
    prompt_tokens: int
    cached_tokens: int
    """Of the prompt tokens."""
    completion_tokens: int
    estimated: int
    """Requests whose tokens nobody has counted, so that the sums are not exact."""


def sum_usage(
    database: Database, by: Sequence[Dimension], since: datetime | None, until: datetime | None
) -> list[UsageSum]:
    """The sums for each combination of the dimensions `by`, in order; of rows from `since` to before `until`."""
    columns = _grouping(by)
    query = _within(_select([column.label(name) for name, column in columns.items()]), since, until)
    if columns:
        query = query.group_by(*columns.values()).order_by(*(column.nulls_first() for column in columns.values()))
    with database.reading() as connection:
        rows = connection.execute(query).all()
    n = len(columns)
    return [UsageSum(dict(zip(columns, row[:n], strict=True)), *(int(value) for value in row[n:])) for row in rows]


def prune_usage(database: Database, before: datetime) -> int:
    """Remove the rows of requests that ended before then, and return how many they were."""
    with database.writing() as connection:
        return connection.execute(delete(UsageTable).where(UsageTable.time < before)).rowcount


def group_names(by: Sequence[Dimension]) -> tuple[str, ...]:
    """The columns in the `group` of sums by those dimensions."""
    return tuple(_grouping(by))


def _grouping(by: Sequence[Dimension]) -> dict[str, ColumnElement[Any]]:
    return {name: column for dimension in by for name, column in _columns(dimension).items()}


def _columns(dimension: Dimension) -> dict[str, ColumnElement[Any]]:
    match dimension:
        case "day":
            return {"day": utc_day(UsageTable.time)}
        case "model":
            return {"model": UsageTable.model.expression}
        case "key":
            return {"key": UsageTable.key_id.expression, "key_name": KeyTable.name.expression}
        case "account":
            # By its name, or by its id if the account was removed.
            return {"account": func.coalesce(AccountTable.name, UsageTable.account_id)}
        case "user":
            return {"user": UsageTable.user.expression}


def _select(columns: Sequence[ColumnElement[Any]]) -> Select[*tuple[Any, ...]]:
    return (
        select(
            *columns,
            func.count(),
            func.coalesce(func.sum(case((UsageTable.status >= FAILED_FROM, 1), else_=0)), 0),
            func.coalesce(func.sum(UsageTable.prompt_tokens), 0),
            func.coalesce(func.sum(UsageTable.cached_tokens), 0),
            func.coalesce(func.sum(UsageTable.completion_tokens), 0),
            func.coalesce(func.sum(case((UsageTable.estimated, 1), else_=0)), 0),
        )
        .select_from(UsageTable)
        .outerjoin(KeyTable, KeyTable.id == UsageTable.key_id)
        .outerjoin(AccountTable, AccountTable.id == UsageTable.account_id)
    )


def _within(
    query: Select[*tuple[Any, ...]], since: datetime | None, until: datetime | None
) -> Select[*tuple[Any, ...]]:
    if since is not None:
        query = query.where(UsageTable.time >= since)
    if until is not None:
        query = query.where(UsageTable.time < until)
    return query
