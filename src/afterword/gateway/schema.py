"""The tables: accounts, keys and usage. Migrations create them; a test compares the two.

Everything works on SQLite and PostgreSQL; what differs between them is in this file.
"""

from datetime import UTC, date, datetime
from typing import Any

from sqlalchemy import (
    JSON,
    BigInteger,
    DateTime,
    Dialect,
    Float,
    ForeignKey,
    LargeBinary,
    MetaData,
    String,
    Text,
    false,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column
from sqlalchemy.sql.functions import GenericFunction
from sqlalchemy.types import TypeDecorator
from typing_extensions import override

from afterword.gateway.names import MAX_NAME

NAMING = {
    "ix": "ix_%(table_name)s_%(column_0_name)s",
    "uq": "uq_%(table_name)s_%(column_0_name)s",
    "fk": "fk_%(table_name)s_%(column_0_name)s",
    "pk": "pk_%(table_name)s",
}
"""Names of constraints, so that migrations can refer to them on every database."""


class UtcTime(TypeDecorator[datetime]):
    """A time, aware and in UTC in Python; stored without a zone on SQLite, which has none."""

    impl = DateTime(timezone=True)
    cache_ok = True

    @override
    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """From Python to the database."""
        if value is None:
            return None
        assert value.tzinfo is not None
        moment = value.astimezone(UTC)
        return moment.replace(tzinfo=None) if dialect.name == "sqlite" else moment

    @override
    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """From the database to Python."""
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if dialect.name == "sqlite" else value.astimezone(UTC)


class utc_day(GenericFunction[str]):
    """The UTC day of a moment, written 2026-11-29."""

    type = String()
    inherit_cache = True


@compiles(utc_day, "sqlite")
def _sqlite_day(element: utc_day, compiler: Any, **options: Any) -> str:
    return f"date({compiler.process(element.clauses, **options)})"


@compiles(utc_day, "postgresql")
def _postgresql_day(element: utc_day, compiler: Any, **options: Any) -> str:
    return f"to_char(timezone('UTC', {compiler.process(element.clauses, **options)}), 'YYYY-MM-DD')"


class Base(DeclarativeBase):
    """The base of all tables."""

    metadata = MetaData(naming_convention=NAMING)


class AccountTable(Base):
    """An account, whose keys' usage is summed."""

    __tablename__ = "accounts"

    id: Mapped[str] = mapped_column(String(32), primary_key=True)
    name: Mapped[str] = mapped_column(String(MAX_NAME), unique=True)
    created: Mapped[datetime] = mapped_column(UtcTime)
    priority: Mapped[int] = mapped_column(server_default="0")
    """Of keys that have none of their own; lower is earlier."""


class KeyTable(Base):
    """One API key. Its secret is kept as a hash only."""

    __tablename__ = "keys"

    id: Mapped[str] = mapped_column(String(16), primary_key=True)
    """Its public part, which is in the key's text."""
    account_id: Mapped[str] = mapped_column(ForeignKey("accounts.id"), index=True)
    name: Mapped[str] = mapped_column(String(MAX_NAME))
    hash: Mapped[bytes] = mapped_column(LargeBinary(32))
    previous_hash: Mapped[bytes | None] = mapped_column(LargeBinary(32))
    """Of the secret before the last rotation, good until `previous_until`."""
    previous_until: Mapped[datetime | None] = mapped_column(UtcTime)
    models: Mapped[list[str] | None] = mapped_column(JSON(none_as_null=True))
    """Full names; None: all."""
    requests_per_minute: Mapped[int | None] = mapped_column(BigInteger)
    tokens_per_minute: Mapped[int | None] = mapped_column(BigInteger)
    concurrent_requests: Mapped[int | None] = mapped_column(BigInteger)
    concurrent_tokens: Mapped[int | None] = mapped_column(BigInteger)
    priority: Mapped[int | None]
    """None: its account's."""
    created: Mapped[datetime] = mapped_column(UtcTime)
    expires: Mapped[datetime | None] = mapped_column(UtcTime)
    revoked: Mapped[datetime | None] = mapped_column(UtcTime)
    last_used: Mapped[date | None]
    """UTC day."""


class UsageTable(Base):
    """One completion request that has ended (docs/rules.md#usage-rows).

    Without foreign keys to keys and accounts: a row must be writable even if they were removed.
    """

    __tablename__ = "usage"

    writer: Mapped[str] = mapped_column(String(16), primary_key=True)
    """Random id of the server process: with `number` it identifies a row, which so is not stored twice."""
    number: Mapped[int] = mapped_column(BigInteger, primary_key=True, autoincrement=False)
    time: Mapped[datetime] = mapped_column(UtcTime, index=True)
    request_id: Mapped[str] = mapped_column(String(128))
    key_id: Mapped[str | None] = mapped_column(String(16))
    account_id: Mapped[str | None] = mapped_column(String(32))
    user: Mapped[str | None] = mapped_column(Text)
    model: Mapped[str] = mapped_column(Text)
    prompt_tokens: Mapped[int] = mapped_column(BigInteger)
    cached_tokens: Mapped[int] = mapped_column(BigInteger)
    completion_tokens: Mapped[int] = mapped_column(BigInteger)
    estimated: Mapped[bool] = mapped_column(server_default=false())
    finish_reasons: Mapped[list[str]] = mapped_column(JSON)
    latency: Mapped[float] = mapped_column(Float(53))
    """Seconds."""
    status: Mapped[int]


def insert_new(table: type[Base], dialect: str) -> sqlite.Insert | postgresql.Insert:
    """An insert that skips rows whose unique columns exist already."""
    if dialect == "sqlite":
        return sqlite.insert(table).on_conflict_do_nothing()
    return postgresql.insert(table).on_conflict_do_nothing()
