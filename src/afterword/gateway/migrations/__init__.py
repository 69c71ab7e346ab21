"""The database migrations; alembic runs those that are missing.

A new one is a file in `versions/` with the next number, which names the one before it. A test compares their result
with `schema.py`. They only go forward, and are not changed once they have been released.
"""
