"""How many slots there are, and how many tokens each and all of them may hold, from a memory budget. Pure."""

from dataclasses import dataclass

from afterword.config.model import KVType
from afterword.config.tree import DEFAULT_CONTEXT
from afterword.errors import ConfigurationError

SMALLEST_CONTEXT = 256
"""llama.cpp allocates cells in blocks of this size."""

SPARE_CELLS = 32
"""That a slot may keep beyond those that it uses: fewer are not worth giving back to the system."""

BOOKS_BYTES = 64
"""That llama.cpp and kv.py keep of each cell of a slot, whether or not it is used."""

KV_SIZES: dict[KVType, tuple[int, int]] = {"f16": (2, 1), "q8_0": (34, 32)}
"""Bytes of how many numbers."""

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
    per_context_token: int
    """Of each token that a slot could hold, whether or not it does: masks, scores and books."""
    compute: int
    """Further buffers of a forward pass."""
    n_ctx_train: int
    """Tokens of context it was trained with."""
    shared: bool
    """Whether cells take memory only as they are used (caches.py), so that slots share what there is."""

    @property
    def per_slot(self) -> int:
        """Of a slot without its cells: its state, that of one which has made room for another, and checkpoints."""
        return (2 + LEAST_CHECKPOINTS) * self.state + (SPARE_CELLS * self.kv_per_token if self.shared else 0)


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """What a model gets."""

    context: int
    """Tokens a slot may hold."""
    n_slots: int
    n_cells: int
    """Tokens that all slots may hold together."""
    checkpoints: int
    """Bytes of states that are kept."""
    total: int
    """Bytes of all: weights, cells, states and buffers."""


def plan_memory(need: MemoryNeed, *, context: int | None, parallel: int, budget: int | None) -> MemoryPlan:
    """The context and cells for it (docs/memory.md).

    `context` None: what the model was trained with, as far as `budget` allows, in bytes; None: no limit. Raises
    `ConfigurationError` if there is not room for one slot.
    """
    if budget is None:
        # A context that nobody asked for is not the longest that there could be.
        wanted = min(DEFAULT_CONTEXT, need.n_ctx_train) if context is None else context
        return _plan(need, wanted, parallel, parallel * cells(wanted), None)
    room = budget - need.weights - need.compute
    # Half of the room at most is for what slots take whatever is in them.
    n_slots = max(1, min(parallel, room // 2 // max(1, need.per_slot))) if need.shared else 1
    left = room - n_slots * need.per_slot
    trained = need.n_ctx_train if need.shared else min(DEFAULT_CONTEXT, need.n_ctx_train)
    longest = min(trained, _longest(left // max(1, need.kv_per_token + need.per_context_token)))
    wanted = longest if context is None else context
    left -= cells(wanted) * need.per_context_token
    slot = cells(wanted) * need.kv_per_token
    if left < slot:
        raise ConfigurationError(
            f"One slot of {wanted} tokens of context needs {-(-(budget - left + slot) // MIB)} MiB with the model's "
            f"weights, but the memory budget is {budget // MIB} MiB: lower `context` or raise `memory`."
        )
    if need.shared:
        n_cells = min(n_slots * cells(wanted), left // need.kv_per_token if slot > 0 else n_slots * cells(wanted))
    else:
        n_slots = min(parallel, (left + need.per_slot) // max(1, slot + need.per_slot))
        n_cells = n_slots * cells(wanted)
    return _plan(need, wanted, n_slots, n_cells, budget)


def _plan(need: MemoryNeed, context: int, n_slots: int, n_cells: int, budget: int | None) -> MemoryPlan:
    """With as many checkpoints as fit besides."""
    total = need.weights + need.compute + cells(context) * need.per_context_token
    total += n_cells * need.kv_per_token + n_slots * need.per_slot
    n_more = n_slots * (MOST_CHECKPOINTS - LEAST_CHECKPOINTS)
    if budget is not None:
        n_more = min(n_more, (budget - total) // max(1, need.state))
    checkpoints = (n_slots * LEAST_CHECKPOINTS + n_more) * need.state
    return MemoryPlan(context, n_slots, n_cells, checkpoints, total + n_more * need.state)


def _longest(n_cells: int) -> int:
    """The longest context for that many cells, in thousands if it has any: two starts that find a little more or less
    memory are to choose alike."""
    thousands = (n_cells - SMALLEST_CONTEXT) // 1024 * 1024
    return thousands if thousands > 0 else max(1, n_cells // SMALLEST_CONTEXT) * SMALLEST_CONTEXT - 1


def cells(context: int) -> int:
    """KV cells of a slot for that many tokens: whole blocks, with one cell more for a padding row."""
    return -(-(context + 1) // SMALLEST_CONTEXT) * SMALLEST_CONTEXT


def compute_bytes(n_rows: int, n_vocab: int, n_seen: int) -> int:
    """Bytes of a forward pass of `n_rows`: logits, and `n_seen` entries of a row's mask, or scores where they are kept;
    each with a copy while they are computed.
    """
    return FLOAT_BYTES * n_rows * 2 * (n_vocab + n_seen)


def kv_bytes(of_16_bits: int, kv_type: KVType) -> int:
    """Bytes of as many keys and values as take `of_16_bits` in 16 bits each."""
    size, n = KV_SIZES[kv_type]
    return of_16_bits * size // (2 * n)
