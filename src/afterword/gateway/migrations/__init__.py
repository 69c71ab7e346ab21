"""How the database got its tables, step by step; alembic runs what is missing.

A new step is a file in `versions/` with the next number, which names the one before it. A test holds what the steps
make to `schema.py`. Steps only go forward, and are not changed once they have been released.
"""
