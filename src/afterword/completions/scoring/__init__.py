"""Scores: how likely a model finds continuations of a context (docs/scoring.md)."""
