"""Alembic's environment: runs the migrations on the caller's connection, inside the caller's transaction."""

from alembic import context

from afterword.gateway.schema import Base

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=Base.metadata,
    version_table=context.config.attributes["version_table"],
    # SQLite cannot alter much of a table in place.
    render_as_batch=True,
)
context.run_migrations()
