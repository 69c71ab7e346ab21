"""The kernels of `native/`: against each format's definition, for any number of columns, on any instruction set."""

import ctypes
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import gguf
import numpy as np
import pytest
from gguf import GGMLQuantizationType as Type
from numpy.typing import NDArray
from structlog.testing import capture_logs
from tests.models.tiny import Tiny, write_tiny

from afterword.engine.llama import kernels
from afterword.engine.llama.binding import LIBRARIES_FOLDER, PACKAGE_VERSION
from afterword.engine.llama.kernels import Kernels, KernelsUnavailable, load_kernels, user_cache

N, N_ROWS = 512, 37
"""Columns and rows of the matrices: rows fill some tiles and part of one."""

TILED = (Type.Q4_0, Type.Q4_1, Type.Q5_0, Type.Q5_1, Type.Q8_0, Type.Q4_K, Type.Q5_K, Type.Q6_K, Type.F16, Type.BF16)
DENSE = (Type.F32, Type.F16, Type.BF16)


def matrix(kind: Type, seed: int = 0) -> tuple[NDArray[np.uint8], NDArray[np.float64]]:
    """(bytes of N_ROWS rows of a type, the numbers they stand for): random bits, with scales that are ordinary."""
    rng = np.random.default_rng(seed)
    if kind in DENSE:
        values = rng.standard_normal((N_ROWS, N)).astype(np.float32)
        data = gguf.quants.quantize(values, kind).view(np.uint8).reshape(N_ROWS, -1)
    else:
        columns, size = gguf.GGML_QUANT_SIZES[kind]
        blocks = rng.integers(0, 256, (N_ROWS * N // columns, size), dtype=np.uint8)
        halves = {Type.Q6_K: [208]}.get(kind, [0, 2] if kind in (Type.Q4_1, Type.Q5_1, Type.Q4_K, Type.Q5_K) else [0])
        for at in halves:
            blocks[:, at : at + 2] = (
                rng.uniform(-0.1, 0.1, len(blocks)).astype(np.float16).view(np.uint8).reshape(-1, 2)
            )
        data = blocks.reshape(N_ROWS, -1)
    return np.ascontiguousarray(data), gguf.quants.dequantize(data, kind).astype(np.float64).reshape(N_ROWS, N)


def product(
    built: Kernels, kind: Type, rows: NDArray[np.uint8], x: NDArray[np.float32], tiles: bool = True
) -> NDArray[np.float32]:
    x = np.ascontiguousarray(x)
    out = np.full((len(x), N_ROWS), np.nan, dtype=np.float32)
    pointers = [a.ctypes.data_as(ctypes.c_void_p) for a in (rows, x, out)]
    done = built.library.afterword_kernels_multiply(
        kind.value, x.shape[1], N_ROWS, pointers[0], len(x), pointers[1], pointers[2], int(tiles)
    )
    assert done
    return out


def rounded(x: NDArray[np.float32]) -> NDArray[np.float64]:
    """What the activations are once each block of 32 is rounded to 8 bits."""
    blocks = x.reshape(len(x), -1, 32).astype(np.float64)
    scale = np.abs(blocks).max(axis=2, keepdims=True) / 127
    return np.asarray(np.rint(blocks / np.where(scale == 0, 1, scale)) * scale).reshape(x.shape)


@pytest.mark.parametrize("kind", TILED, ids=lambda kind: kind.name)
def test_a_product_in_tiles_is_that_of_the_numbers_that_the_file_stands_for(built: Kernels, kind: Type) -> None:
    rows, numbers = matrix(kind)
    x = np.random.default_rng(1).standard_normal((9, N)).astype(np.float32)
    exact = (x.astype(np.float64) if kind in DENSE else rounded(x)) @ numbers.T
    size = np.abs(numbers) @ np.abs(x.astype(np.float64)).T
    # Rounding a half of a step up or down may differ where a product ends just there: one step of one activation.
    tolerance = 2e-6 * size.T + (0 if kind in DENSE else np.abs(numbers).max() * np.abs(x).max() / 127)
    assert (np.abs(product(built, kind, rows, x) - exact) <= tolerance).all()


@pytest.mark.parametrize("kind", DENSE, ids=lambda kind: kind.name)
@pytest.mark.parametrize("n", [N, N - 3, 5])
def test_a_product_with_rows_as_they_are_is_right_for_any_length(built: Kernels, kind: Type, n: int) -> None:
    rows, numbers = matrix(kind)
    item = 4 if kind is Type.F32 else 2
    some = np.ascontiguousarray(rows.reshape(N_ROWS, N, item)[:, :n]).reshape(N_ROWS, -1)
    x = np.random.default_rng(1).standard_normal((5, n)).astype(np.float32)
    exact = x.astype(np.float64) @ numbers[:, :n].T
    assert np.allclose(product(built, kind, some, x, tiles=False), exact, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize(
    ("kind", "tiles"),
    [(kind, True) for kind in TILED]
    + [(kind, False) for kind in (*TILED, Type.F32, Type.Q2_K, Type.Q3_K, Type.IQ4_NL)],
    ids=lambda value: value.name if isinstance(value, Type) else "tiles" if value else "rows",
)
def test_a_column_has_the_same_bits_whatever_is_computed_beside_it(built: Kernels, kind: Type, tiles: bool) -> None:
    if kind in TILED or kind is Type.F32:
        rows, _ = matrix(kind)
    else:
        columns, size = gguf.GGML_QUANT_SIZES[kind]
        rows = np.zeros((N_ROWS, N // columns * size), dtype=np.uint8) + np.arange(N_ROWS, dtype=np.uint8)[:, None] % 48
    x = np.random.default_rng(2).standard_normal((140, N)).astype(np.float32)
    all_at_once = product(built, kind, rows, x, tiles)
    for first, n in ((0, 1), (1, 2), (3, 3), (6, 4), (10, 5), (20, 16), (12, 128)):
        some = product(built, kind, rows, x[first : first + n], tiles)
        assert np.array_equal(some.view(np.int32), all_at_once[first : first + n].view(np.int32)), (first, n)


@pytest.mark.parametrize("poison", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_reaches_the_result(built: Kernels, poison: float) -> None:
    rows, _ = matrix(Type.Q4_K)
    x = np.ones((2, N), dtype=np.float32)
    x[1, 100] = poison
    out = product(built, Type.Q4_K, rows, x)
    assert np.isfinite(out[0]).all()
    assert not np.isfinite(out[1]).any()


@pytest.mark.parametrize(("definition", "path"), [("-DAFTERWORD_PLAIN", "plain"), ("-DAFTERWORD_NO_AVX512", "avx2")])
def test_other_instructions_give_the_same_bits_as_the_processor_s_best(
    built: Kernels, definition: str, path: str
) -> None:
    other = kernels._load(kernels._compiled(user_cache(), (definition,), LIBRARIES_FOLDER))
    if other.afterword_kernels_path() == b"plain" and path != "plain":
        pytest.skip("the processor has no AVX2")
    assert other.afterword_kernels_path().decode() in (path, "neon")
    assert other.afterword_kernels_digest() == built.library.afterword_kernels_digest() == kernels.DIGEST


def test_another_llama_cpp_is_left_alone(tmp_path: Path) -> None:
    with pytest.raises(KernelsUnavailable, match=r"written for llama-cpp-python 0\.3\.36, not 0\.4\.0"):
        load_kernels(tmp_path, "0.4.0", LIBRARIES_FOLDER)


def test_no_compiler_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    with pytest.raises(KernelsUnavailable, match="no C\\+\\+ compiler"):
        load_kernels(tmp_path, PACKAGE_VERSION, LIBRARIES_FOLDER)


def test_wrong_numbers_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "DIGEST", 1)
    monkeypatch.setattr(kernels, "VARIANTS", ((),))
    with pytest.raises(KernelsUnavailable, match="wrong numbers"):
        load_kernels(user_cache(), PACKAGE_VERSION, LIBRARIES_FOLDER)


@pytest.fixture
def libraries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Of a folder with the libraries; what is compiled is a small one that has the right digest."""
    sources = tmp_path / "sources"
    sources.mkdir()
    functions = {
        "uint64_t afterword_kernels_digest": f"{kernels.DIGEST}ull",
        "const char *afterword_kernels_path": '"x"',
    }
    functions |= {f"bool afterword_kernels_{name}": "true" for name in ("install", "multiply", "attend")}
    body = "\n".join(f'extern "C" {name}() {{ return {value}; }}' for name, value in functions.items())
    (sources / "kernels.cpp").write_text(f"#include <cstdint>\n{body}\n")
    monkeypatch.setattr(kernels, "SOURCES", sources)
    return LIBRARIES_FOLDER


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(lambda data: data[: len(data) // 2], id="native-13 a compiled library that was cut"),
        pytest.param(
            lambda data: data[:-1] + bytes([data[-1] ^ 1]), id="native-13 a compiled library of which a bit is other"
        ),
        pytest.param(lambda data: b"", id="native-13 an empty compiled library"),
    ],
)
def test_a_damaged_library_is_noticed_and_made_again(
    libraries: Path, tmp_path: Path, damage: Callable[[bytes], bytes]
) -> None:
    cache = tmp_path / "cache"
    load_kernels(cache, PACKAGE_VERSION, libraries)
    (library,) = cache.glob("*.so")
    whole = library.read_bytes()
    # As a new file: this process still uses the old one.
    library.unlink()
    library.write_bytes(damage(whole))
    with capture_logs() as logs:
        load_kernels(cache, PACKAGE_VERSION, libraries)
    assert [line["log_level"] for line in logs] == ["warning", "info"]
    assert logs[0]["path"] == str(library)
    assert len(library.read_bytes()) == len(whole)
    with capture_logs() as logs:
        load_kernels(cache, PACKAGE_VERSION, libraries)
    assert logs == []


def test_models_loaded_before_the_kernels_keep_llama_cpp_s_buffers_and_its_numbers(tmp_path: Path) -> None:
    # Q4_0 has kernels of llama.cpp's with an arrangement of their own.
    program = """
import sys
from pathlib import Path
from afterword.engine.llama.binding import LIBRARIES_FOLDER, PACKAGE_VERSION, LlamaContext, LlamaModel
from afterword.engine.llama.caches import Attention
from afterword.engine.llama.kernels import use_kernels
model = LlamaModel(Path(sys.argv[1]))
context = LlamaContext(model, n_slots=1, n_ctx_slot=256, n_batch=64, n_threads=1, attention=Attention(True))
def after():
    context.truncate(0, 0)
    return context.decode([1, 2, 3], [0, 1, 2], [0, 0, 0], [0, 0, 1]).copy()
before = after()
kernels = use_kernels(PACKAGE_VERSION, LIBRARIES_FOLDER)
print(kernels.name if kernels else "llama.cpp", abs(after() - before).max() < 0.05 * abs(before).max())
"""
    path = write_tiny(tmp_path, Tiny("Q4_0"))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", program, path], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.split()[-1] == "True", done.stdout
