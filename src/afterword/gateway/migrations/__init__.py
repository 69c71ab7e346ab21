"""How the database got its tables, step by step; alembic runs what is missing."""
