"""Accounts in the database: create, find, list. Everything here blocks."""

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection, Select, func, insert, or_, select

from afterword.gateway.database import Database
from afterword.gateway.key import new_id
from afterword.gateway.names import ACCOUNT_PREFIX, BadName, check_name, unknown
from afterword.gateway.schema import AccountTable, KeyTable, insert_new

DEFAULT_ACCOUNT = "default"
"""The account of keys that were created without one; created with the first of them."""


@dataclass(frozen=True, slots=True)
class AccountRecord:
    """An account as stored."""

    id: str
    name: str
    created: datetime
    priority: int
    n_keys: int
    """Keys that are neither revoked nor expired."""


@dataclass(frozen=True, slots=True)
class Chargeable:
    """The account that a name in a request refers to."""

    account_id: str | None
    """None: there are no accounts here, so the name is another server's and nothing is charged."""


def create_account(database: Database, name: str, now: datetime, priority: int = 0) -> str:
    """Create an account and return its id; `priority`: of its keys that have none of their own. Raises `BadName`."""
    check_name(name, "an account")
    with database.writing() as connection:
        if connection.scalar(select(AccountTable.id).where(AccountTable.name == name)) is not None:
            raise BadName(f"There is an account {name!r} already.")
        account_id = _new_account_id()
        connection.execute(insert(AccountTable).values(id=account_id, name=name, created=now, priority=priority))
    return account_id


def list_accounts(database: Database, now: datetime) -> list[AccountRecord]:
    """Every account by name, with the number of its keys that are valid at `now`."""
    live = (KeyTable.revoked.is_(None)) & or_(KeyTable.expires.is_(None), KeyTable.expires > now)
    shown = (AccountTable.id, AccountTable.name, AccountTable.created, AccountTable.priority)
    query = (
        select(*shown, func.count(KeyTable.id))
        .outerjoin(KeyTable, (KeyTable.account_id == AccountTable.id) & live)
        .group_by(*shown)
        .order_by(AccountTable.name)
    )
    with database.reading() as connection:
        return [AccountRecord(*row) for row in connection.execute(query)]


def find_chargeable(database: Database, name: str) -> Chargeable | None:
    """The account of that name or id; None if there are accounts and it is none of them."""
    with database.reading() as connection:
        found = connection.scalar(_id_of(name))
        if found is not None:
            return Chargeable(found)
        return Chargeable(None) if connection.scalar(select(AccountTable.id).limit(1)) is None else None


def account_id_of(connection: Connection, name: str) -> str:
    """The id of the account of that name or id. Raises `NoSuchName`."""
    found = connection.scalar(_id_of(name))
    if found is None:
        names = connection.scalars(select(AccountTable.name)).all()
        raise unknown("account", name, names, f"Make it with `afterword accounts create {name}`.")
    return found


def default_account_id(connection: Connection, now: datetime) -> str:
    """The id of the default account, which is created if it does not exist."""
    values = {"id": _new_account_id(), "name": DEFAULT_ACCOUNT, "created": now}
    connection.execute(insert_new(AccountTable, connection.dialect.name), [values])
    return account_id_of(connection, DEFAULT_ACCOUNT)


def _id_of(name: str) -> Select[str]:
    return select(AccountTable.id).where(or_(AccountTable.name == name, AccountTable.id == name))


def _new_account_id() -> str:
    return ACCOUNT_PREFIX + new_id()
