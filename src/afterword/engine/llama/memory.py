"""How many tokens of context each slot gets, and how many slots there are, from a memory budget. Pure."""

from dataclasses import dataclass

from afterword.config.tree import DEFAULT_CONTEXT
from afterword.errors import ConfigurationError

SMALLEST_CONTEXT = 256
"""llama.cpp allocates cells in blocks of this size."""

MIB = 1024 * 1024

FLOAT_BYTES = 4


@dataclass(frozen=True, slots=True)
class MemoryNeed:
    """What a model needs, in bytes."""

    weights: int
    kv_per_token: int
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
    total: int
    """Bytes of weights, cells and buffers together."""


def plan_memory(need: MemoryNeed, *, context: int | None, parallel: int, budget: int | None) -> MemoryPlan:
    """As many of the slots as fit; the context as asked for, or the default, shortened if one slot must be.

    `budget` in bytes, None: no limit. Raises `ConfigurationError` if not even one slot fits.
    """
    wanted = min(DEFAULT_CONTEXT, need.n_ctx_train) if context is None else context
    fixed = need.weights + need.compute
    n_cells = (budget - fixed) // need.kv_per_token if budget is not None else parallel * cells(wanted)
    n_slots = min(parallel, n_cells // cells(wanted))
    if n_slots < 1 and context is None:
        wanted = max(1, n_cells // SMALLEST_CONTEXT) * SMALLEST_CONTEXT - 1
        n_slots = min(1, n_cells // cells(wanted))
    if n_slots < 1:
        total = fixed + cells(wanted) * need.kv_per_token
        assert budget is not None
        raise ConfigurationError(
            f"One slot of {wanted} tokens of context needs {-(-total // MIB)} MiB with the model's weights, "
            f"but the memory budget is {budget // MIB} MiB: lower `context` or raise `memory`."
        )
    return MemoryPlan(wanted, n_slots, fixed + n_slots * cells(wanted) * need.kv_per_token)


def cells(context: int) -> int:
    """KV cells of a slot for that many tokens: whole blocks, with one cell more for a padding row."""
    return -(-(context + 1) // SMALLEST_CONTEXT) * SMALLEST_CONTEXT


def compute_bytes(n_rows: int, n_vocab: int, n_seen: int) -> int:
    """Bytes of a forward pass of `n_rows`: logits, and `n_seen` entries of a row's mask, or scores where they are kept;
    each with a copy while they are computed.
    """
    return FLOAT_BYTES * n_rows * 2 * (n_vocab + n_seen)
