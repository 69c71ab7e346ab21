import pytest
from hypothesis import given
from hypothesis import strategies as st

from afterword.engine.llama.memory import MIB, MemoryNeed, MemoryPlan, cells, plan_memory
from afterword.errors import ConfigurationError

KIB = 1024
NEED = MemoryNeed(weights=100 * MIB, kv_per_token=KIB, compute=20 * MIB, n_ctx_train=8192)
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
        pytest.param(None, 4, None, MemoryPlan(4096, 4, FIXED + 4 * 4352 * KIB), id="default-context-and-no-limit"),
        pytest.param(1000, 4, None, MemoryPlan(1000, 4, FIXED + 4 * 1024 * KIB), id="context-asked-for"),
        pytest.param(16000, 1, None, MemoryPlan(16000, 1, FIXED + 16128 * KIB), id="more-than-it-was-trained-with"),
        pytest.param(1000, 4, FIXED + 4 * MIB, MemoryPlan(1000, 4, FIXED + 4 * MIB), id="exactly-enough"),
        pytest.param(1000, 4, FIXED + 4 * MIB - 1, MemoryPlan(1000, 3, FIXED + 3 * MIB), id="one-slot-less"),
        pytest.param(1000, 4, FIXED + 1 * MIB, MemoryPlan(1000, 1, FIXED + MIB), id="one-slot"),
        pytest.param(1000, 2, FIXED + 90 * MIB, MemoryPlan(1000, 2, FIXED + 2 * MIB), id="no-more-than-asked-for"),
        pytest.param(None, 4, FIXED + 1 * MIB, MemoryPlan(1023, 1, FIXED + MIB), id="default-context-is-shortened"),
        pytest.param(None, 4, FIXED + 256 * KIB, MemoryPlan(255, 1, FIXED + 256 * KIB), id="shortest-context"),
    ],
)
def test_memory_is_shared_out(context: int | None, parallel: int, budget: int | None, share: MemoryPlan) -> None:
    assert plan_memory(NEED, context=context, parallel=parallel, budget=budget) == share


def test_default_context_is_no_longer_than_the_model_was_trained_with() -> None:
    need = MemoryNeed(weights=MIB, kv_per_token=KIB, compute=MIB, n_ctx_train=2048)
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


@given(st.none() | st.integers(1, 20_000), st.integers(1, 64), st.integers(0, 400 * MIB))
def test_what_is_shared_out_fits_the_budget(context: int | None, parallel: int, budget: int) -> None:
    try:
        share = plan_memory(NEED, context=context, parallel=parallel, budget=budget)
    except ConfigurationError:
        assert budget < FIXED + cells(1 if context is None else context) * KIB
        return
    assert 1 <= share.n_slots <= parallel
    assert context is None or share.context == context
    assert share.total == FIXED + share.n_slots * cells(share.context) * KIB <= budget
