"""How many tokens of context each slot gets, and how many slots there are, from a memory budget. Pure."""

from dataclasses import dataclass

from afterword.config.tree import DEFAULT_CONTEXT
from afterword.errors import ConfigurationError

SMALLEST_CONTEXT = 256
"""llama.cpp allocates cells in blocks of this size."""

MIB = 1024 * 1024

FLOAT_BYTES = 4

LEAST_CHECKPOINTS, MOST_CHECKPOINTS = 2, 16
"""States that are kept for each slot where memory cannot be cut (checkpoints.py): at least, and if there is room."""


@dataclass(frozen=True, slots=True)
class MemoryNeed:
    """What a model needs, in bytes."""

    weights: int
    kv_per_token: int
    state: int
    """Of a slot, whatever the tokens in it; 0 where memory can be cut."""
    compute: int
    """Buffers of a forward pass."""
    n_ctx_train: int
    """Tokens of context it was trained with."""


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """What a model gets."""

    context: int
    """Tokens a slot may hold."""
    n_slots: int
    checkpoints: int
    """Bytes of states that are kept."""
    total: int
    """Bytes of all: weights, cells, states and buffers."""


def plan_memory(need: MemoryNeed, *, context: int | None, parallel: int, budget: int | None) -> MemoryPlan:
    """As many of the slots as fit; the context as asked for, or the default, shortened if one slot must be.

    `budget` in bytes, None: no limit. Raises `ConfigurationError` if not even one slot fits.
    """
    wanted = min(DEFAULT_CONTEXT, need.n_ctx_train) if context is None else context
    fixed = need.weights + need.compute
    # Its own, and that of a sequence which has made room for another.
    own = 2 * need.state
    states = own + LEAST_CHECKPOINTS * need.state
    if budget is None:
        n_slots, n_more = parallel, parallel * (MOST_CHECKPOINTS - LEAST_CHECKPOINTS)
    else:
        room = budget - fixed
        if context is None and room < cells(wanted) * need.kv_per_token + states and need.kv_per_token > 0:
            wanted = max(1, (room - states) // need.kv_per_token // SMALLEST_CONTEXT) * SMALLEST_CONTEXT - 1
        slot = cells(wanted) * need.kv_per_token + states
        n_slots = min(parallel, room // slot)
        if n_slots < 1:
            raise ConfigurationError(
                f"One slot of {wanted} tokens of context needs {-(-(fixed + slot) // MIB)} MiB with the model's "
                f"weights, but the memory budget is {budget // MIB} MiB: lower `context` or raise `memory`."
            )
        n_more = (room - n_slots * slot) // need.state if need.state > 0 else 0
    n_checkpoints = min(n_slots * LEAST_CHECKPOINTS + n_more, n_slots * MOST_CHECKPOINTS)
    total = fixed + n_slots * (cells(wanted) * need.kv_per_token + own) + n_checkpoints * need.state
    return MemoryPlan(wanted, n_slots, n_checkpoints * need.state, total)


def cells(context: int) -> int:
    """KV cells of a slot for that many tokens: whole blocks, with one cell more for a padding row."""
    return -(-(context + 1) // SMALLEST_CONTEXT) * SMALLEST_CONTEXT


def compute_bytes(n_rows: int, n_vocab: int, n_seen: int) -> int:
    """Bytes of a forward pass of `n_rows`: logits, and `n_seen` entries of a row's mask, or scores where they are kept;
    each with a copy while they are computed.
    """
    return FLOAT_BYTES * n_rows * 2 * (n_vocab + n_seen)
