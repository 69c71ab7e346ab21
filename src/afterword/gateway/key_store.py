"""Keys in the database: create, find, list, revoke, rotate. Everything here blocks.

The text of a key is returned once, when it is created; only its hash is stored.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any, Literal

from sqlalchemy import ColumnElement, Connection, Row, func, insert, or_, select, update

from afterword.errors import AfterwordError
from afterword.gateway.accounts import account_id_of, default_account_id
from afterword.gateway.database import Database
from afterword.gateway.grant import UNLIMITED, KeyLimits
from afterword.gateway.key import hash_of, id_of, new_id, new_key
from afterword.gateway.names import NoSuchName, check_model, check_name, unknown
from afterword.gateway.schema import AccountTable, KeyTable

State = Literal["live", "expired", "revoked"]


class OtherRotation(AfterwordError):
    """A rotation would end a secret before the time that another rotation has promised it."""


@dataclass(frozen=True, slots=True)
class KeyTerms:
    """The settings of a new key."""

    name: str
    account: str | None = None
    """Name or id; None: the default account, which is created with its first key."""
    models: Sequence[str] | None = None
    """Full names; None: all."""
    limits: KeyLimits = UNLIMITED
    expires: datetime | None = None
    priority: int | None = None
    """None: the account's."""


@dataclass(frozen=True, slots=True)
class KeyRecord:
    """A key as stored, with its account."""

    id: str
    name: str
    account_id: str
    account_name: str
    hash: bytes
    previous_hash: bytes | None
    previous_until: datetime | None
    models: frozenset[str] | None
    limits: KeyLimits
    created: datetime
    expires: datetime | None
    revoked: datetime | None
    last_used: date | None
    priority: int
    """Its own, or the account's."""

    def state(self, now: datetime) -> State:
        """Whether it is valid at `now`."""
        if self.revoked is not None:
            return "revoked"
        return "live" if self.expires is None or now < self.expires else "expired"


def create_key(database: Database, terms: KeyTerms, now: datetime) -> str:
    """Create a key and return its text, which cannot be recovered later. Raises `BadName` and `NoSuchName`."""
    check_name(terms.name, "a key")
    models = None if terms.models is None else sorted({check_model(name) for name in terms.models})
    key_id = new_id()
    text = new_key(key_id)
    with database.writing() as connection:
        account_id = (
            default_account_id(connection, now) if terms.account is None else account_id_of(connection, terms.account)
        )
        values = {
            "id": key_id,
            "account_id": account_id,
            "name": terms.name,
            "hash": hash_of(text.encode("ascii")),
            "models": models,
            "requests_per_minute": terms.limits.requests_per_minute,
            "tokens_per_minute": terms.limits.tokens_per_minute,
            "concurrent_requests": terms.limits.concurrent_requests,
            "concurrent_tokens": terms.limits.concurrent_tokens,
            "priority": terms.priority,
            "created": now,
            "expires": terms.expires,
        }
        connection.execute(insert(KeyTable).values(values))
    return text


def find_key(database: Database, key_id: str) -> KeyRecord | None:
    """The key of that public id."""
    with database.reading() as connection:
        row = connection.execute(_RECORDS.where(KeyTable.id == key_id)).one_or_none()
    return None if row is None else _record(row)


def list_keys(database: Database) -> list[KeyRecord]:
    """Every key, revoked and expired ones included, by account and name."""
    with database.reading() as connection:
        rows = connection.execute(_RECORDS.order_by(AccountTable.name, KeyTable.name, KeyTable.created)).all()
    return [_record(row) for row in rows]


def n_live_keys(database: Database, now: datetime) -> int:
    """How many keys are neither revoked nor expired."""
    live = select(func.count()).select_from(KeyTable).where(_is_live(now))
    with database.reading() as connection:
        return connection.scalars(live).one()


def has_keys(database: Database) -> bool:
    """Whether a key was ever created, also if it is revoked or expired now."""
    with database.reading() as connection:
        return connection.scalar(select(KeyTable.id).limit(1)) is not None


def revoke_key(database: Database, name: str, now: datetime) -> KeyRecord:
    """Revoke a key for good; a revoked one stays as it was. `name`: as `_resolve` takes it."""
    with database.writing() as connection:
        key = _resolve(connection, name, now)
        connection.execute(
            update(KeyTable)
            .where(KeyTable.id == key.id, KeyTable.revoked.is_(None))
            .values(revoked=now, previous_hash=None, previous_until=None)
        )
    return key


def rotate_key(database: Database, name: str, now: datetime, until: datetime | None) -> str:
    """Give a live key a new secret and return its new text; the old one stays valid `until` then, None: not at all.

    Id, account, limits and usage stay. `name`: as `_resolve` takes it. A key has two secrets at most, so another grace
    cannot begin before the last one is over: raises `OtherRotation`. Without `until` both old secrets end.
    """
    with database.writing() as connection:
        key = _resolve(connection, name, now)
        if key.state(now) != "live":
            raise NoSuchName(f"The key {key.id} ({key.name}) is {key.state(now)}: make a new one instead.")
        if until is not None and key.previous_until is not None and now < key.previous_until:
            raise OtherRotation(
                f"The key {key.id} ({key.name}) was rotated already, and its secret from before is good until "
                f"{key.previous_until.isoformat(timespec='seconds')}: rotate it again then, or without --grace, which "
                "ends both of its secrets at once."
            )
        text = new_key(key.id)
        previous = None if until is None else key.hash
        values = {"hash": hash_of(text.encode("ascii")), "previous_hash": previous, "previous_until": until}
        # The secret that was read: PostgreSQL lets another rotation come in between.
        unchanged = update(KeyTable).where(KeyTable.id == key.id, KeyTable.hash == key.hash)
        if connection.execute(unchanged.values(values)).rowcount != 1:
            raise OtherRotation(f"The key {key.id} ({key.name}) was rotated by somebody else just now.")
    return text


def touch_key(database: Database, key_id: str, day: date) -> None:
    """Note that a key was used on a UTC day."""
    later = or_(KeyTable.last_used.is_(None), KeyTable.last_used < day)
    with database.writing() as connection:
        connection.execute(update(KeyTable).where(KeyTable.id == key_id, later).values(last_used=day))


_RECORDS = select(
    KeyTable.__table__, AccountTable.name.label("account_name"), AccountTable.priority.label("account_priority")
).join(AccountTable, AccountTable.id == KeyTable.account_id)


def _resolve(connection: Connection, name: str, now: datetime) -> KeyRecord:
    """The key of that id, or whose whole text it is (a leaked one), or the one live key of that name.

    Raises `NoSuchName`.
    """
    key_id = id_of(name.encode("utf-8", "replace")) or name
    row = connection.execute(_RECORDS.where(KeyTable.id == key_id)).one_or_none()
    if row is not None:
        return _record(row)
    named = connection.execute(_RECORDS.where(KeyTable.name == name, _is_live(now))).all()
    if len(named) == 1:
        return _record(named[0])
    if named:
        ids = ", ".join(sorted(row.id for row in named))
        raise NoSuchName(f"{len(named)} live keys are called {name!r}: say which by its id, one of {ids}.")
    names = connection.scalars(select(KeyTable.name).where(_is_live(now))).all()
    raise unknown("live key", name, names, "`afterword keys list` shows those there are.")


def _is_live(now: datetime) -> ColumnElement[bool]:
    return KeyTable.revoked.is_(None) & or_(KeyTable.expires.is_(None), KeyTable.expires > now)


def _record(row: Row[*tuple[Any, ...]]) -> KeyRecord:
    limits = KeyLimits(row.requests_per_minute, row.tokens_per_minute, row.concurrent_requests, row.concurrent_tokens)
    return KeyRecord(
        id=row.id,
        name=row.name,
        account_id=row.account_id,
        account_name=row.account_name,
        hash=row.hash,
        previous_hash=row.previous_hash,
        previous_until=row.previous_until,
        models=None if row.models is None else frozenset(row.models),
        limits=limits,
        created=row.created,
        expires=row.expires,
        revoked=row.revoked,
        last_used=row.last_used,
        priority=row.account_priority if row.priority is None else row.priority,
    )
