"""Rows of usage say whether nobody has counted their tokens."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Rows from before count as counted."""
    op.add_column("usage", sa.Column("estimated", sa.Boolean(), nullable=False, server_default=sa.false()))
