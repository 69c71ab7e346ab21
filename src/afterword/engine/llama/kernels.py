"""Which attention kernel computes which token, and how a prompt is cut so that this never depends on luck.

A token's numbers depend on one thing besides its own context: the kernel that attends for it. llama.cpp takes the
tiled kernel when a micro-batch carries TILE or more tokens of the token's own stream, the row kernel otherwise.
So each prompt is cut once, by its length alone (ARCHITECTURE, "Exactness"):

    0                    boundary                 P               end
    |── tiled kernel ────|── row kernel ──────────|── row kernel ─|
     multiples of TILE     TILE..2·TILE-1 tokens    generated

Pure arithmetic: no model, no state.
"""

TILE = 64
"""Query rows of llama.cpp's tiled kernel. Checked against the running build by `probe.py`."""

ROW_MAX = TILE - 1
"""Longest piece that stays with the row kernel."""

ROW_COST = 1.5
"""Time of a row-kernel prompt token relative to a tiled one: 381 against 563 tokens/s measured on two cores."""


def boundary(n_prompt: int) -> int:
    """Where the tiled part of a prompt of that many tokens ends: a multiple of TILE, 0 for short prompts.

    At least TILE tokens stay behind it, so that endings of up to TILE tokens share their whole context.
    """
    return TILE * max(0, n_prompt // TILE - 1)


def prefill_cost(n_reused: int, tiled_end: int, n_prompt: int) -> float:
    """Relative time to compute the rest of a prompt whose first `n_reused` tokens are there."""
    n_tiled = max(0, tiled_end - n_reused)
    return n_tiled + ROW_COST * (n_prompt - n_reused - n_tiled)
