"""The attention of `native/`: against its definition in float64, and the same bits whatever is beside a query."""

import ctypes
from dataclasses import dataclass, replace

import gguf
import numpy as np
import pytest
from gguf import GGMLQuantizationType as Type
from numpy.typing import NDArray

from afterword.engine.llama.kernels import Kernels


class Task(ctypes.Structure):
    """`Task` of native/check.cpp."""

    _fields_ = [
        *((n, ctypes.c_int64) for n in ("key", "value", "cells", "queries", "heads", "key_heads", "slots")),
        *((name, ctypes.c_void_p) for name in ("q", "k", "v", "mask", "sinks", "out")),
        ("type", ctypes.c_int32),
        *((name, ctypes.c_float) for name in ("scale", "max_bias", "cap")),
    ]


@dataclass(frozen=True, slots=True)
class Attention:
    """Operands of an attention; shapes as in native/check.cpp."""

    q: NDArray[np.float32]
    k: NDArray[np.float32]
    v: NDArray[np.float32]
    allowed: NDArray[np.bool_]
    """(slots, queries, cells): which cells a query may see."""
    kind: Type = Type.F16
    sinks: NDArray[np.float32] | None = None
    max_bias: float = 0.0
    cap: float = 0.0

    @property
    def scale(self) -> float:
        return float(self.q.shape[3] ** -0.5)

    @property
    def bias(self) -> NDArray[np.float16]:
        """What the mask adds: with ALiBi the distance to the query's own cell, the last that it sees."""
        cells = np.arange(self.allowed.shape[2])
        last = np.where(self.allowed, cells, 0).max(axis=2, keepdims=True)
        distance = -np.abs(cells - last) if self.max_bias > 0 else np.zeros_like(self.allowed, dtype=np.int64)
        return np.where(self.allowed, distance, -np.inf).astype(np.float16)


def some(*, key: int, value: int, cells: int, queries: int, heads: int, key_heads: int, slots: int = 1) -> Attention:
    """Random operands; query i sees the cells up to the (cells - queries + i)th."""
    rng = np.random.default_rng(5)
    q, k, v = (
        rng.standard_normal(shape).astype(np.float32)
        for shape in ((slots, heads, queries, key), (slots, key_heads, cells, key), (slots, key_heads, cells, value))
    )
    causal = np.arange(cells)[None, :] <= (cells - queries + np.arange(queries))[:, None]
    return Attention(q, k, v, np.broadcast_to(causal, (slots, queries, cells)).copy())


def stored(values: NDArray[np.float32], kind: Type) -> tuple[NDArray[np.uint8], NDArray[np.float64]]:
    """(bytes, the numbers they stand for) of keys or values kept as a type."""
    data = np.ascontiguousarray(gguf.quants.quantize(values, kind)).view(np.uint8)
    return data, gguf.quants.dequantize(data, kind).astype(np.float64).reshape(values.shape)


def attend(built: Kernels, a: Attention) -> NDArray[np.float32]:
    """(slots, queries, heads, value)"""
    slots, heads, queries, key = a.q.shape
    _, key_heads, cells, value = a.v.shape
    out = np.full((slots, queries, heads, value), np.nan, dtype=np.float32)
    q, bias = np.ascontiguousarray(a.q), np.ascontiguousarray(a.bias)
    k, v = stored(a.k, a.kind)[0], stored(a.v, a.kind)[0]
    places = (q.ctypes.data, k.ctypes.data, v.ctypes.data, bias.ctypes.data)
    sinks = None if a.sinks is None else a.sinks.ctypes.data
    numbers = (a.kind.value, a.scale, a.max_bias, a.cap)
    task = Task(key, value, cells, queries, heads, key_heads, slots, *places, sinks, out.ctypes.data, *numbers)
    assert built.library.afterword_kernels_attend(ctypes.byref(task))
    return out


def exact(a: Attention) -> NDArray[np.float64]:
    """The definition, in float64, of the numbers that the kept keys and values stand for."""
    group = a.q.shape[1] // a.k.shape[1]
    k, v = (np.repeat(stored(array, a.kind)[1], group, axis=1) for array in (a.k, a.v))
    scores = a.q.astype(np.float64) @ k.swapaxes(2, 3) * a.scale
    if a.cap > 0:
        scores = a.cap * np.tanh(scores / a.cap)
    scores += slopes(a.q.shape[1], a.max_bias)[None, :, None, None] * a.bias.astype(np.float64)[:, None]
    if a.sinks is not None:
        sink = np.broadcast_to(a.sinks[None, :, None, None], (*scores.shape[:3], 1))
        scores = np.concatenate([scores, sink], axis=3)
    weights = np.exp(scores - scores.max(axis=3, keepdims=True))
    weights /= weights.sum(axis=3, keepdims=True)
    return np.asarray((weights[..., : v.shape[2]] @ v).swapaxes(1, 2))


def slopes(n_heads: int, max_bias: float) -> NDArray[np.float64]:
    """ALiBi's: geometric for the largest power of two of heads, the odd terms of the finer series for the others."""
    if max_bias == 0:
        return np.ones(n_heads)
    n = 2 ** int(np.log2(n_heads))
    first = 2.0 ** (-max_bias / n * np.arange(1, n + 1))
    return np.concatenate([first, 2.0 ** (-max_bias / 2 / n * (2 * np.arange(n_heads - n) + 1))])


SHAPES = [
    {"key": 64, "value": 64, "cells": 256, "queries": 40, "heads": 9, "key_heads": 3},
    {"key": 64, "value": 64, "cells": 300, "queries": 1, "heads": 14, "key_heads": 2, "slots": 3},
    {"key": 256, "value": 256, "cells": 130, "queries": 3, "heads": 4, "key_heads": 1},
    {"key": 96, "value": 128, "cells": 65, "queries": 65, "heads": 2, "key_heads": 2},
    # No multiple of a vector, nor of four cells.
    {"key": 20, "value": 12, "cells": 51, "queries": 7, "heads": 3, "key_heads": 1},
    {"key": 576, "value": 512, "cells": 70, "queries": 2, "heads": 4, "key_heads": 1},
]


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: f"{shape['key']}x{shape['cells']}")
def test_attention_is_its_definition(built: Kernels, shape: dict[str, int]) -> None:
    a = some(**shape)
    assert np.allclose(attend(built, a), exact(a), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", [Type.F32, Type.BF16, Type.Q8_0, Type.Q4_0], ids=lambda kind: kind.name)
def test_keys_and_values_may_have_any_type(built: Kernels, kind: Type) -> None:
    a = replace(some(key=64, value=64, cells=100, queries=5, heads=4, key_heads=2), kind=kind)
    assert np.allclose(attend(built, a), exact(a), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "change",
    [
        {"cap": 3.0},
        {"max_bias": 8.0},
        {"sinks": np.linspace(-2, 6, 12, dtype=np.float32)},
        {"cap": 5.0, "sinks": np.full(12, 40.0, dtype=np.float32)},
    ],
    ids=["cap", "alibi", "sinks", "large sinks"],
)
def test_what_architectures_add_to_scores(built: Kernels, change: dict[str, object]) -> None:
    a = replace(some(key=64, value=32, cells=150, queries=20, heads=12, key_heads=4), **change)  # type: ignore[arg-type]
    assert np.allclose(attend(built, a), exact(a), rtol=1e-4, atol=1e-5)


def test_a_window_leaves_cells_out_at_both_ends(built: Kernels) -> None:
    a = some(key=32, value=32, cells=400, queries=300, heads=2, key_heads=1)
    cells, own = np.arange(400)[None, None, :], 100 + np.arange(300)[None, :, None]
    windowed = replace(a, allowed=a.allowed & (cells > own - 37))
    assert np.allclose(attend(built, windowed), exact(windowed), rtol=1e-4, atol=1e-5)


def test_a_query_that_sees_nothing_gets_zeros(built: Kernels) -> None:
    a = some(key=32, value=32, cells=64, queries=2, heads=1, key_heads=1)
    a.allowed[0, 0] = False
    out = attend(built, a)
    assert not out[0, 0].any()
    assert out[0, 1].any()


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: f"{shape['key']}x{shape['cells']}")
def test_a_query_has_the_same_bits_whatever_is_beside_it_or_behind_it(built: Kernels, shape: dict[str, int]) -> None:
    a = some(**shape)
    together = attend(built, a)
    n_queries, n_cells = a.q.shape[2], a.k.shape[2]
    for slot in range(a.q.shape[0]):
        for first in range(0, n_queries, 3):
            last = min(first + 3, n_queries)
            # Fewer cells behind the query's own, other cells around another query, no other slot.
            seen = n_cells - n_queries + last
            alone = Attention(
                a.q[slot : slot + 1, :, first:last],
                a.k[slot : slot + 1, :, :seen],
                a.v[slot : slot + 1, :, :seen],
                a.allowed[slot : slot + 1, first:last, :seen],
            )
            assert np.array_equal(attend(built, alone)[0], together[slot, first:last]), (slot, first)


def test_what_is_not_finite_reaches_the_result_of_its_own_query_alone(built: Kernels) -> None:
    a = some(key=32, value=32, cells=64, queries=4, heads=2, key_heads=1)
    a.k[0, 0, 62] = np.nan
    # The cell belongs to the last two queries.
    out = attend(built, a)
    assert np.isfinite(out[0, :2]).all()
    assert not np.isfinite(out[0, 2:]).any()


def test_cells_that_no_query_sees_may_hold_anything(built: Kernels) -> None:
    a = some(key=32, value=32, cells=128, queries=2, heads=2, key_heads=1)
    a.allowed[..., 70:] = False
    expected = attend(built, a)
    a.k[:, :, 70:], a.v[:, :, 70:] = np.nan, np.inf
    assert np.array_equal(attend(built, a), expected)
