"""Engines: what all of them implement (`base.py`) and share, and each kind. They know no HTTP and no API fields."""
