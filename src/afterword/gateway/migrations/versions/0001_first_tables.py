"""Accounts, keys and usage."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

MOMENT = sa.DateTime(timezone=True)


def upgrade() -> None:
    """Make the tables."""
    op.create_table(
        "accounts",
        sa.Column("id", sa.String(32), nullable=False),
        sa.Column("name", sa.String(64), nullable=False),
        sa.Column("created", MOMENT, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_accounts"),
        sa.UniqueConstraint("name", name="uq_accounts_name"),
    )
    op.create_table(
        "keys",
        sa.Column("id", sa.String(16), nullable=False),
        sa.Column("account_id", sa.String(32), nullable=False),
        sa.Column("name", sa.String(64), nullable=False),
        sa.Column("hash", sa.LargeBinary(32), nullable=False),
        sa.Column("previous_hash", sa.LargeBinary(32)),
        sa.Column("previous_until", MOMENT),
        sa.Column("models", sa.JSON()),
        sa.Column("requests_per_minute", sa.BigInteger()),
        sa.Column("tokens_per_minute", sa.BigInteger()),
        sa.Column("concurrent_requests", sa.BigInteger()),
        sa.Column("created", MOMENT, nullable=False),
        sa.Column("expires", MOMENT),
        sa.Column("revoked", MOMENT),
        sa.Column("last_used", sa.Date()),
        sa.PrimaryKeyConstraint("id", name="pk_keys"),
        sa.ForeignKeyConstraint(["account_id"], ["accounts.id"], name="fk_keys_account_id"),
    )
    op.create_index("ix_keys_account_id", "keys", ["account_id"])
    op.create_table(
        "usage",
        sa.Column("writer", sa.String(16), nullable=False),
        sa.Column("number", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("time", MOMENT, nullable=False),
        sa.Column("request_id", sa.String(128), nullable=False),
        sa.Column("key_id", sa.String(16)),
        sa.Column("account_id", sa.String(32)),
        sa.Column("user", sa.Text()),
        sa.Column("model", sa.Text(), nullable=False),
        sa.Column("prompt_tokens", sa.BigInteger(), nullable=False),
        sa.Column("cached_tokens", sa.BigInteger(), nullable=False),
        sa.Column("completion_tokens", sa.BigInteger(), nullable=False),
        sa.Column("finish_reasons", sa.JSON(), nullable=False),
        sa.Column("latency", sa.Float(53), nullable=False),
        sa.Column("status", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("writer", "number", name="pk_usage"),
    )
    op.create_index("ix_usage_time", "usage", ["time"])
