from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from afterword.config.model import KVType
from afterword.engine.llama.admission import SLOTS_TO_PARKED
from afterword.engine.llama.arithmetic import MICRO_BATCH
from afterword.engine.llama.memory import (
    BOOKS_BYTES,
    MIB,
    MemoryNeed,
    MemoryPlan,
    cells,
    compute_bytes,
    kv_bytes,
    plan_memory,
)
from afterword.errors import ConfigurationError

KIB = 1024
NEED = MemoryNeed(
    weights=100 * MIB,
    kv_per_token=KIB,
    state=0,
    per_context_token=0,
    compute=20 * MIB,
    n_ctx_train=8192,
    shared=False,
)
FIXED = 120 * MIB
"""Bytes that do not depend on the context."""


def whole(context: int, n_slots: int, checkpoints: int, total: int) -> MemoryPlan:
    """A plan whose slots all have their whole context."""
    return MemoryPlan(context, n_slots, n_slots * cells(context), checkpoints, total)


@pytest.mark.parametrize(
    ("context", "n"), [(1, 256), (255, 256), (256, 512), (511, 512), (512, 768), (4095, 4096), (4096, 4352)]
)
def test_cells_come_in_blocks_with_one_to_spare(context: int, n: int) -> None:
    assert cells(context) == n


@pytest.mark.parametrize(
    ("context", "parallel", "budget", "share"),
    [
        pytest.param(None, 4, None, whole(4096, 4, 0, FIXED + 4 * 4352 * KIB), id="default-context-and-no-limit"),
        pytest.param(1000, 4, None, whole(1000, 4, 0, FIXED + 4 * 1024 * KIB), id="context-asked-for"),
        pytest.param(16000, 1, None, whole(16000, 1, 0, FIXED + 16128 * KIB), id="more-than-it-was-trained-with"),
        pytest.param(1000, 4, FIXED + 4 * MIB, whole(1000, 4, 0, FIXED + 4 * MIB), id="exactly-enough"),
        pytest.param(1000, 4, FIXED + 4 * MIB - 1, whole(1000, 3, 0, FIXED + 3 * MIB), id="one-slot-less"),
        pytest.param(1000, 4, FIXED + 1 * MIB, whole(1000, 1, 0, FIXED + MIB), id="one-slot"),
        pytest.param(1000, 2, FIXED + 90 * MIB, whole(1000, 2, 0, FIXED + 2 * MIB), id="no-more-than-asked-for"),
        pytest.param(None, 4, FIXED + 1 * MIB, whole(1023, 1, 0, FIXED + MIB), id="default-context-is-shortened"),
        pytest.param(None, 4, FIXED + 256 * KIB, whole(255, 1, 0, FIXED + 256 * KIB), id="shortest-context"),
    ],
)
def test_memory_is_shared_out(context: int | None, parallel: int, budget: int | None, share: MemoryPlan) -> None:
    assert plan_memory(NEED, context=context, parallel=parallel, budget=budget) == share


def test_default_context_is_no_longer_than_the_model_was_trained_with() -> None:
    need = replace(NEED, n_ctx_train=2048)
    assert plan_memory(need, context=None, parallel=1, budget=None).context == 2048


@pytest.mark.parametrize(
    ("context", "budget", "numbers"),
    [
        pytest.param(1000, FIXED + MIB - 1, "1000 tokens .* needs 121 MiB .* is 120 MiB", id="context-asked-for"),
        pytest.param(None, FIXED + 256 * KIB - 1, "255 tokens .* needs 121 MiB .* is 120 MiB", id="shortest-context"),
        pytest.param(None, 50 * MIB, "255 tokens .* needs 121 MiB .* is 50 MiB", id="less-than-the-weights"),
        pytest.param(2047, 0, "2047 tokens .* needs 122 MiB .* is 0 MiB", id="nothing"),
    ],
)
def test_too_little_memory_is_refused_with_the_numbers(context: int | None, budget: int, numbers: str) -> None:
    with pytest.raises(ConfigurationError, match=numbers):
        plan_memory(NEED, context=context, parallel=2, budget=budget)


STATEFUL = replace(NEED, state=3 * MIB)
"""A hybrid: what does not grow with the text takes as much as 3,072 tokens."""
RECURRENT = replace(STATEFUL, kv_per_token=0)


@pytest.mark.parametrize(
    ("need", "budget", "share"),
    [
        pytest.param(STATEFUL, None, whole(1000, 4, 192 * MIB, FIXED + 220 * MIB), id="no-limit"),
        pytest.param(STATEFUL, FIXED + 500 * MIB, whole(1000, 4, 192 * MIB, FIXED + 220 * MIB), id="more-than-all"),
        pytest.param(STATEFUL, FIXED + 61 * MIB, whole(1000, 4, 33 * MIB, FIXED + 61 * MIB), id="some-more"),
        pytest.param(STATEFUL, FIXED + 52 * MIB, whole(1000, 4, 24 * MIB, FIXED + 52 * MIB), id="the-least"),
        pytest.param(STATEFUL, FIXED + 51 * MIB, whole(1000, 3, 30 * MIB, FIXED + 51 * MIB), id="one-slot-less"),
        pytest.param(RECURRENT, FIXED + 12 * MIB, whole(1000, 1, 6 * MIB, FIXED + 12 * MIB), id="without-cells"),
    ],
)
def test_states_are_kept_beside_the_slots(need: MemoryNeed, budget: int | None, share: MemoryPlan) -> None:
    assert plan_memory(need, context=1000, parallel=4, budget=budget) == share


def test_default_context_is_shortened_where_states_take_the_memory() -> None:
    budget = FIXED + 12 * MIB + 512 * KIB
    assert plan_memory(STATEFUL, context=None, parallel=4, budget=budget) == whole(511, 1, 6 * MIB, budget)


@pytest.mark.parametrize("need", [STATEFUL, RECURRENT])
def test_too_little_memory_for_the_least_of_states_is_refused(need: MemoryNeed) -> None:
    with pytest.raises(ConfigurationError, match=r"needs \d+ MiB .* is 131 MiB"):
        plan_memory(need, context=None, parallel=2, budget=FIXED + 11 * MIB)


@given(
    st.none() | st.integers(1, 20_000),
    st.integers(1, 64),
    st.integers(0, 400 * MIB),
    st.builds(
        replace,
        st.just(NEED),
        kv_per_token=st.sampled_from([0, 1, KIB]),
        state=st.sampled_from([0, 1, 3 * MIB]),
        per_context_token=st.sampled_from([0, 50]),
        shared=st.booleans(),
    ),
)
def test_what_is_shared_out_fits_the_budget(context: int | None, parallel: int, budget: int, need: MemoryNeed) -> None:
    per_token = need.kv_per_token + need.per_context_token
    try:
        plan = plan_memory(need, context=context, parallel=parallel, budget=budget)
    except ConfigurationError:
        assert budget < FIXED + cells(255 if context is None else context) * per_token + need.per_slot + 1
        return
    assert 1 <= plan.n_slots <= parallel
    assert context is None or plan.context == context
    assert cells(plan.context) <= plan.n_cells <= plan.n_slots * cells(plan.context)
    assert need.shared or plan.n_cells >= plan.n_slots * cells(plan.context)
    assert 2 * plan.n_slots * need.state <= plan.checkpoints <= 16 * plan.n_slots * need.state
    slots = plan.n_cells * need.kv_per_token + plan.n_slots * (need.per_slot - 2 * need.state)
    assert plan.total == FIXED + cells(plan.context) * need.per_context_token + slots + plan.checkpoints <= budget


GB = 1000**3


def known(weights: float, cell: int, n_vocab: int, trained: int, kv_type: KVType = "f16") -> MemoryNeed:
    """What a model of that shape needs, as an engine would have it for 16 slots. `weights` in GB, `cell` in numbers."""
    kept = kv_bytes(2 * cell, kv_type)
    return MemoryNeed(
        weights=int(weights * GB),
        kv_per_token=kept + kept // SLOTS_TO_PARKED,
        state=0,
        per_context_token=compute_bytes(MICRO_BATCH, 0, 1) + 16 * BOOKS_BYTES,
        compute=compute_bytes(MICRO_BATCH, n_vocab, 0),
        n_ctx_train=trained,
        shared=True,
    )


SEVEN = known(4.1, 32 * 2 * 32 * 128, 32_000, 8192)
"""7 B, Q4_K_M, every head with keys of its own."""
EIGHT = known(4.9, 32 * 2 * 8 * 128, 128_256, 131_072)
"""8 B, Q4_K_M, a head of keys for four of queries."""


@pytest.mark.parametrize(
    ("need", "budget", "context", "n_cells"),
    [
        pytest.param(SEVEN, 16, 8192, 19_400, id="7B"),
        pytest.param(known(4.1, 32 * 2 * 32 * 128, 32_000, 8192, "q8_0"), 16, 8192, 37_000, id="7B-q8_0"),
        pytest.param(SEVEN, 8, 5120, 5_900, id="7B-in-8-GB"),
        pytest.param(EIGHT, 16, 70_656, 71_000, id="8B"),
        pytest.param(known(4.9, 32 * 2 * 8 * 128, 128_256, 131_072, "q8_0"), 16, 131_072, 131_400, id="8B-q8_0"),
        pytest.param(known(0.8, 16 * 2 * 8 * 64, 128_256, 131_072), 8, 131_072, 176_000, id="1B"),
        pytest.param(known(0.1, 30 * 2 * 3 * 64, 49_152, 8192), 8, 8192, 16 * 8448, id="the-default-model"),
        pytest.param(known(0.25, 18 * 2 * 256, 262_144, 32_768), 8, 32_768, 333_000, id="270M-with-windows"),
        pytest.param(known(4.7, 28 * 2 * 4 * 128, 152_064, 1_000_000), 16, 161_792, 162_000, id="a-million"),
    ],
)
def test_models_of_known_shapes_serve_sixteen_in_what_there_is(
    need: MemoryNeed, budget: int, context: int, n_cells: int
) -> None:
    plan = plan_memory(need, context=None, parallel=16, budget=budget * GB)
    assert (plan.context, plan.n_slots) == (context, 16)
    assert n_cells <= plan.n_cells <= 1.03 * n_cells
    asked = plan_memory(need, context=4096, parallel=16, budget=budget * GB)
    assert (asked.context, asked.n_slots) == (4096, 16)
    assert asked.n_cells >= min(plan.n_cells, 16 * cells(4096))


def test_a_model_larger_than_memory_is_refused_with_what_it_needs() -> None:
    need = known(42.5, 80 * 2 * 8 * 128, 128_256, 131_072)
    with pytest.raises(
        ConfigurationError, match=r"255 tokens of context needs 4\d{4} MiB .* budget is 15258 MiB: lower"
    ):
        plan_memory(need, context=None, parallel=16, budget=16 * GB)


def test_two_starts_that_find_a_little_more_or_less_memory_choose_alike() -> None:
    found = {plan_memory(EIGHT, context=None, parallel=16, budget=16 * GB - n * MIB).context for n in range(64)}
    assert len(found) == 1


@pytest.mark.parametrize(("kv_type", "expected"), [("f16", 128), ("q8_0", 68)])
def test_bytes_of_types(kv_type: KVType, expected: int) -> None:
    assert kv_bytes(128, kv_type) == expected
