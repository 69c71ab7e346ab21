"""Runs the database migrations that are missing.

Of several processes that start at once one runs them, and the others wait.
"""

from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, text

from afterword.errors import ConfigurationError

VERSION_TABLE = "afterword_version"
"""A name of its own: the database may hold tables of a program that uses alembic too."""

LOCK = 0x6166746572776F72
"""Key of the advisory lock on PostgreSQL: the first eight letters of the program's name."""


def upgrade(connection: Connection) -> None:
    """Run the steps that are missing, inside the connection's transaction, which the caller commits.

    On SQLite that transaction must be one that writes from its beginning; it is the lock. Raises `ConfigurationError`
    if the database was migrated by a newer version of the program.
    """
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": LOCK})
    if not is_current(connection):
        command.upgrade(_config(connection), "head")


def is_current(connection: Connection) -> bool:
    """Whether no step is missing. Raises `ConfigurationError` like `upgrade`; changes nothing."""
    script = ScriptDirectory.from_config(_config(connection))
    current = MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE}).get_current_revision()
    newest = script.get_current_head()
    if current is not None and current not in {step.revision for step in script.walk_revisions()}:
        raise ConfigurationError(
            f"The database was made by a newer version of this program: its tables are at step {current}, and this "
            f"version knows the steps up to {newest}. Install that version, or name another database."
        )
    return current == newest


def _config(connection: Connection) -> Config:
    config = Config()
    # Alembic's configuration interpolates percent signs.
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations").replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    config.attributes.update(connection=connection, version_table=VERSION_TABLE)
    return config
