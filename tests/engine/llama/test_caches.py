"""What the kernel keeps in memory of a context's caches, by its own books."""

import gc
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from tests.models.tiny import Tiny, write_tiny

from afterword.engine.llama.binding import LlamaContext, LlamaModel
from afterword.engine.llama.caches import Attention, Caches
from afterword.engine.llama.kernels import Kernels

N_SLOTS, N_CELLS = 4, 8192
CELL_BYTES = 2 * 2 * 2 * (16 + 16)
"""Of layers, bytes, KV heads, key and value of a tiny model."""
PAGES = 64 * 1024
"""Bytes of the pages at the edges of a slot's caches, and more."""


@pytest.fixture
def before() -> int:
    """What caches of other tests have in this process, which is left alone."""
    gc.collect()
    return in_memory()


@pytest.fixture
def context(built: Kernels, tmp_path: Path, before: int) -> Iterator[LlamaContext]:
    model = LlamaModel(write_tiny(tmp_path, Tiny("Q8_0")))
    opened = LlamaContext(
        model,
        n_slots=N_SLOTS,
        n_ctx_slot=N_CELLS,
        n_batch=256,
        n_threads=1,
        attention=Attention(fused=True, caches=Caches(built)),
    )
    yield opened
    opened.close()
    model.close()


def in_memory() -> int:
    """Bytes of mappings that are neither of large pages nor accounted for: only caches are so."""
    mappings = re.split(r"(?m)^(?=[0-9a-f]+-[0-9a-f]+ )", Path("/proc/self/smaps").read_text(encoding="utf-8"))
    reserved = [text for text in mappings if re.search(r"(?m)^VmFlags:.* nr .*\bnh\b", text)]
    return sum(int(re.findall(r"(?m)^Rss: +(\d+) kB", text)[0]) * 1024 for text in reserved)


def fill(context: LlamaContext, slot: int, n: int) -> None:
    start = context.length(slot)
    for at in range(start, n, 256):
        length = min(256, n - at)
        positions = np.arange(at, at + length, dtype=np.int32)
        context.decode(positions % 256, positions, [slot] * length, [0] * length)


def test_cells_take_memory_when_they_are_used_and_give_it_back_when_cut(context: LlamaContext, before: int) -> None:
    assert in_memory() - before <= PAGES, "nothing was computed"
    fill(context, 1, 4000)
    fill(context, 2, 1000)
    assert 0 <= in_memory() - before - 5000 * CELL_BYTES <= PAGES
    context.truncate(1, 500)
    assert 0 <= in_memory() - before - 1500 * CELL_BYTES <= PAGES
    context.truncate(1, 400)
    context.truncate(1, 300)
    context.truncate(1, 200)
    assert 0 <= in_memory() - before - 1200 * CELL_BYTES <= PAGES, "cuts add up"
    context.truncate(2, 0)
    context.truncate(1, 0)
    assert in_memory() - before <= PAGES


def test_what_follows_a_cut_is_as_it_was(context: LlamaContext) -> None:
    fill(context, 0, 3000)
    expected = context.decode([7], [3000], [0], [1])[0].copy()
    fill(context, 1, 3500)
    context.truncate(0, 1000)
    fill(context, 0, 3000)
    assert np.array_equal(context.decode([7], [3000], [0], [1])[0], expected)
    context.restore(2, context.snapshot(0))
    context.truncate(0, 0)
    context.truncate(2, 3000)
    assert np.array_equal(context.decode([7], [3000], [2], [1])[0], expected)


def test_a_copy_has_no_more_cells_than_its_source_uses(context: LlamaContext, before: int) -> None:
    fill(context, 0, 1000)
    expected = context.decode([7], [1000], [0], [1])[0].copy()
    context.duplicate(0, 3)
    context.truncate(3, 1000)
    context.duplicate(0, 2)
    context.truncate(2, 200)
    assert np.array_equal(context.decode([7], [1000], [3], [1])[0], expected)
    assert 0 <= in_memory() - before - (2 * 1001 + 200) * CELL_BYTES <= PAGES
    fill(context, 2, 1000)
    assert np.array_equal(context.decode([7], [1000], [2], [1])[0], expected)


def test_closing_gives_everything_back(context: LlamaContext, before: int) -> None:
    fill(context, 3, 4000)
    context.close()
    assert in_memory() - before == 0
