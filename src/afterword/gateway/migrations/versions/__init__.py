"""The migrations, each after the one before."""
