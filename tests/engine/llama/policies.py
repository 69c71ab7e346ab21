"""Other policies than the engine's, to show what the choice does not touch: every answer stays the same to the bit."""

from collections.abc import Sequence

from afterword.engine.llama.arithmetic import MICRO_BATCH, Arithmetic
from afterword.engine.llama.policy import Batch, Piece, Running, Turns

MOST_AT_ONCE = 50


def small_pieces(running: Sequence[Running], turns: Turns, arithmetic: Arithmetic) -> Batch:
    """Up to five tokens of every prompt at a time; next tokens only when no prompt is left."""
    prompts = [s for s in running if s.prefilling][:MOST_AT_ONCE]
    if not prompts:
        return Batch(tuple(Piece(s.slot_id, 1) for s in running), turns)
    # More rows than tokens are pending may be needed, but never more than there is room for.
    most = min(5, *(s.n_room for s in prompts))
    return Batch(tuple(Piece(s.slot_id, min(most, s.n_next)) for s in prompts), turns)


def everything_at_once(running: Sequence[Running], turns: Turns, arithmetic: Arithmetic) -> Batch:
    """All next tokens, and where one row is as good as several, beside them as much of the prompts as fits."""
    pieces = [Piece(s.slot_id, 1) for s in running if not s.prefilling]
    prompts = [s for s in running if s.prefilling]
    if arithmetic.rows_needed > 1:
        prompts = [] if pieces else prompts[:1]
    for s in prompts:
        n = min(s.n_next, MICRO_BATCH - sum(piece.n for piece in pieces))
        if n > 0:
            pieces.append(Piece(s.slot_id, n))
    return Batch(tuple(pieces), turns)
