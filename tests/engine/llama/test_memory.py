from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from afterword.engine.llama.memory import MIB, MemoryNeed, MemoryPlan, cells, plan_memory
from afterword.errors import ConfigurationError

KIB = 1024
NEED = MemoryNeed(weights=100 * MIB, kv_per_token=KIB, state=0, compute=20 * MIB, n_ctx_train=8192)
FIXED = 120 * MIB
"""Bytes that do not depend on the context."""


@pytest.mark.parametrize(
    ("context", "n"), [(1, 256), (255, 256), (256, 512), (511, 512), (512, 768), (4095, 4096), (4096, 4352)]
)
def test_cells_come_in_blocks_with_one_to_spare(context: int, n: int) -> None:
    assert cells(context) == n


@pytest.mark.parametrize(
    ("context", "parallel", "budget", "share"),
    [
        pytest.param(None, 4, None, MemoryPlan(4096, 4, 0, FIXED + 4 * 4352 * KIB), id="default-context-and-no-limit"),
        pytest.param(1000, 4, None, MemoryPlan(1000, 4, 0, FIXED + 4 * 1024 * KIB), id="context-asked-for"),
        pytest.param(16000, 1, None, MemoryPlan(16000, 1, 0, FIXED + 16128 * KIB), id="more-than-it-was-trained-with"),
        pytest.param(1000, 4, FIXED + 4 * MIB, MemoryPlan(1000, 4, 0, FIXED + 4 * MIB), id="exactly-enough"),
        pytest.param(1000, 4, FIXED + 4 * MIB - 1, MemoryPlan(1000, 3, 0, FIXED + 3 * MIB), id="one-slot-less"),
        pytest.param(1000, 4, FIXED + 1 * MIB, MemoryPlan(1000, 1, 0, FIXED + MIB), id="one-slot"),
        pytest.param(1000, 2, FIXED + 90 * MIB, MemoryPlan(1000, 2, 0, FIXED + 2 * MIB), id="no-more-than-asked-for"),
        pytest.param(None, 4, FIXED + 1 * MIB, MemoryPlan(1023, 1, 0, FIXED + MIB), id="default-context-is-shortened"),
        pytest.param(None, 4, FIXED + 256 * KIB, MemoryPlan(255, 1, 0, FIXED + 256 * KIB), id="shortest-context"),
    ],
)
def test_memory_is_shared_out(context: int | None, parallel: int, budget: int | None, share: MemoryPlan) -> None:
    assert plan_memory(NEED, context=context, parallel=parallel, budget=budget) == share


def test_default_context_is_no_longer_than_the_model_was_trained_with() -> None:
    need = MemoryNeed(weights=MIB, kv_per_token=KIB, state=0, compute=MIB, n_ctx_train=2048)
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
        pytest.param(STATEFUL, None, MemoryPlan(1000, 4, 192 * MIB, FIXED + 220 * MIB), id="no-limit"),
        pytest.param(
            STATEFUL, FIXED + 500 * MIB, MemoryPlan(1000, 4, 192 * MIB, FIXED + 220 * MIB), id="more-than-all"
        ),
        pytest.param(STATEFUL, FIXED + 61 * MIB, MemoryPlan(1000, 4, 33 * MIB, FIXED + 61 * MIB), id="some-more"),
        pytest.param(STATEFUL, FIXED + 52 * MIB, MemoryPlan(1000, 4, 24 * MIB, FIXED + 52 * MIB), id="the-least"),
        pytest.param(STATEFUL, FIXED + 51 * MIB, MemoryPlan(1000, 3, 30 * MIB, FIXED + 51 * MIB), id="one-slot-less"),
        pytest.param(RECURRENT, FIXED + 12 * MIB, MemoryPlan(1000, 1, 6 * MIB, FIXED + 12 * MIB), id="without-cells"),
    ],
)
def test_states_are_kept_beside_the_slots(need: MemoryNeed, budget: int | None, share: MemoryPlan) -> None:
    assert plan_memory(need, context=1000, parallel=4, budget=budget) == share


def test_default_context_is_shortened_where_states_take_the_memory() -> None:
    budget = FIXED + 12 * MIB + 512 * KIB
    assert plan_memory(STATEFUL, context=None, parallel=4, budget=budget) == MemoryPlan(511, 1, 6 * MIB, budget)


@pytest.mark.parametrize("need", [STATEFUL, RECURRENT])
def test_too_little_memory_for_the_least_of_states_is_refused(need: MemoryNeed) -> None:
    with pytest.raises(ConfigurationError, match=r"needs \d+ MiB .* is 131 MiB"):
        plan_memory(need, context=None, parallel=2, budget=FIXED + 11 * MIB)


@given(
    st.none() | st.integers(1, 20_000),
    st.integers(1, 64),
    st.integers(0, 400 * MIB),
    st.sampled_from([0, 1, KIB]),
    st.sampled_from([0, 1, 3 * MIB]),
)
def test_what_is_shared_out_fits_the_budget(
    context: int | None, parallel: int, budget: int, kv_per_token: int, state: int
) -> None:
    assume(kv_per_token > 0 or state > 0)
    need = replace(NEED, kv_per_token=kv_per_token, state=state)
    try:
        share = plan_memory(need, context=context, parallel=parallel, budget=budget)
    except ConfigurationError:
        assert (
            budget
            < FIXED + cells(1 if context is None and kv_per_token > 0 else context or 1) * kv_per_token + 4 * state
        )
        return
    assert 1 <= share.n_slots <= parallel
    assert context is None or share.context == context
    assert 2 * share.n_slots * state <= share.checkpoints <= 16 * share.n_slots * state
    slots = share.n_slots * (cells(share.context) * kv_per_token + 2 * state)
    assert share.total == FIXED + slots + share.checkpoints <= budget
