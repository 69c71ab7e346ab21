"""Whether this build of llama.cpp and this model keep the promise that `kernels.py` rests on.

Computes a few hundred tokens cut and uncut and compares the logits' bits. A model that fails still answers; its card
says that seeded requests are not reproducible to the bit.
"""

import numpy as np
from numpy.typing import NDArray

from afterword.engine.llama.binding import LlamaContext
from afterword.engine.llama.kernels import ROW_MAX, TILE


def keeps_its_numbers(context: LlamaContext, n_vocab: int) -> bool:
    """Whether tiled pieces and row pieces give the same bits however they are cut, alone and beside another stream.

    Uses and clears streams 0 and 1. False too if the context is too short to tell.
    """
    if context.n_ctx_stream < 2 * TILE + ROW_MAX + 1:
        return False
    tokens = (np.arange(2 * TILE + ROW_MAX, dtype=np.int64) * 7919 % n_vocab).astype(np.int32)
    third = ROW_MAX // 3
    uncut = _logits(context, 0, tokens, [2 * TILE, ROW_MAX])
    cut = _logits(context, 0, tokens, [TILE, TILE, third, third, ROW_MAX - 2 * third])
    same = bool(np.array_equal(uncut, cut)) and _same_beside_another(context, tokens[:TILE])
    context.truncate(0, 0)
    return same


def _logits(context: LlamaContext, stream: int, tokens: NDArray[np.int32], pieces: list[int]) -> NDArray[np.float32]:
    """Logits after each of the last two pieces' final tokens: two rows, so that none is computed alone."""
    context.truncate(stream, 0)
    start = 0
    for n in pieces:
        rows = _run(context, [(stream, start, tokens[start : start + n])])
        start += n
    return rows.copy()


def _same_beside_another(context: LlamaContext, tokens: NDArray[np.int32]) -> bool:
    """Whether two rows of a stream are the same beside two rows of its neighbour. True if it has no neighbour."""
    n = len(tokens) // 2
    _run(context, [(0, 0, tokens[:n])]) if context.truncate(0, 0) else None
    alone = _run(context, [(0, n, tokens[n : n + 2])]).copy()
    if context.n_streams < 2:
        return True
    context.truncate(0, n)
    context.truncate(1, 0)
    _run(context, [(1, 0, tokens[: n - 5])])
    beside = _run(context, [(0, n, tokens[n : n + 2]), (1, n - 5, tokens[n : n + 2])])[:2].copy()
    context.truncate(1, 0)
    return bool(np.array_equal(alone, beside))


def _run(context: LlamaContext, pieces: list[tuple[int, int, NDArray[np.int32]]]) -> NDArray[np.float32]:
    """Decode (stream, start, tokens) pieces; the logits of each piece's last two tokens."""
    outputs = [np.arange(len(tokens)) >= len(tokens) - 2 for _, _, tokens in pieces]
    return context.decode(
        np.concatenate([tokens for _, _, tokens in pieces]),
        np.concatenate([np.arange(start, start + len(t), dtype=np.int32) for _, start, t in pieces]),
        np.concatenate([np.full(len(t), stream, dtype=np.int32) for stream, _, t in pieces]),
        np.concatenate(outputs).astype(np.int8),
    )
