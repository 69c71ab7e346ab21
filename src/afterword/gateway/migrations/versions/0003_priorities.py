"""Keys and accounts have a priority; keys may limit the tokens of what runs at once."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """What is there already has the ordinary priority and no such limit."""
    op.add_column("accounts", sa.Column("priority", sa.Integer(), nullable=False, server_default="0"))
    op.add_column("keys", sa.Column("priority", sa.Integer()))
    op.add_column("keys", sa.Column("concurrent_tokens", sa.BigInteger()))
