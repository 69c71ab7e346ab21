"""A Q4_1 matrix is a Q4_0 matrix and an adapter: the sum of the two is what it was."""

from pathlib import Path

import numpy as np
import pytest
from gguf import GGMLQuantizationType, GGUFReader, GGUFWriter
from gguf.quants import dequantize, quantize
from numpy.typing import NDArray
from tests.models.tiny import Tiny, write_tiny

from afterword.engine.llama.split import write_split

Q4_1 = GGMLQuantizationType.Q4_1
WIDTH = 96
"""Three blocks: the adapter's rank of 32 is mostly padding."""


def matrix(n_rows: int, width: int = WIDTH, seed: int = 0) -> NDArray[np.float32]:
    """Weights whose blocks have offsets of their own."""
    random = np.random.default_rng(seed)
    offsets = np.repeat(random.normal(size=(n_rows, width // 32)), 32, axis=1)
    return (random.normal(size=(n_rows, width)) + offsets).astype(np.float32)


def write(path: Path, tensors: dict[str, NDArray[np.float32]], kind: GGMLQuantizationType = Q4_1) -> Path:
    writer = GGUFWriter(path, "llama")
    writer.add_uint32("general.alignment", 64)
    writer.data_alignment = 64
    writer.add_array("tokenizer.ggml.tokens", ["a", "b"])
    for name, values in tensors.items():
        writer.add_tensor(name, quantize(values, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def values(path: Path) -> dict[str, NDArray[np.float32]]:
    """All tensors of a file as numbers."""
    return {tensor.name: dequantize(tensor.data, tensor.tensor_type) for tensor in GGUFReader(path).tensors}


def split(tmp_path: Path, tensors: dict[str, NDArray[np.float32]]) -> tuple[dict[str, NDArray[np.float32]], ...]:
    """(as written in Q4_1, weights, offsets)."""
    source = write(tmp_path / "source.gguf", tensors)
    weights, offsets = tmp_path / "weights.gguf", tmp_path / "offsets.gguf"
    assert write_split(source, weights, offsets)
    return values(source), values(weights), values(offsets)


@pytest.mark.parametrize("width", [32, WIDTH, 1056])
def test_weights_and_offsets_add_up_to_the_matrix(tmp_path: Path, width: int) -> None:
    name = "blk.0.ffn_down.weight"
    source, weights, offsets = split(tmp_path, {name: matrix(16, width)})
    sums, places = offsets[f"{name}.lora_a"], offsets[f"{name}.lora_b"]
    # The offsets are in Q8_0: half a step of their row's largest.
    most = np.abs(places).max() / 127 / 2 * 1.01
    np.testing.assert_allclose(weights[name] + places @ sums, source[name], atol=most)


def test_sums_are_exact(tmp_path: Path) -> None:
    _, _, offsets = split(tmp_path, {"blk.3.attn_output.weight": matrix(8)})
    expected = np.zeros((32, WIDTH), dtype=np.float32)
    expected[0, :32] = expected[1, 32:64] = expected[2, 64:] = 1
    np.testing.assert_array_equal(offsets["blk.3.attn_output.weight.lora_a"], expected)


def test_queries_keys_and_values_become_one_matrix(tmp_path: Path) -> None:
    names = [f"blk.0.attn_{x}.weight" for x in "kqv"]
    source, weights, offsets = split(tmp_path, {name: matrix(8 * (i + 1), seed=i) for i, name in enumerate(names)})
    assert list(weights) == ["blk.0.attn_qkv.weight"]
    whole = weights["blk.0.attn_qkv.weight"]
    whole = whole + offsets["blk.0.attn_qkv.weight.lora_b"] @ offsets["blk.0.attn_qkv.weight.lora_a"]
    expected = np.concatenate([source[f"blk.0.attn_{x}.weight"] for x in "qkv"])
    np.testing.assert_allclose(whole, expected, atol=0.02)


@pytest.mark.parametrize(
    ("name", "n_rows"),
    [
        pytest.param("token_embd.weight", 16, id="not a product"),
        pytest.param("blk.0.ffn_gate_exps.weight", 16, id="experts"),
        pytest.param("blk.0.ffn_up.weight", 12, id="rows that the kernel cannot take"),
    ],
)
def test_what_cannot_be_split_stays_as_it_is(tmp_path: Path, name: str, n_rows: int) -> None:
    source, weights, offsets = split(tmp_path, {name: matrix(n_rows), "blk.0.ffn_down.weight": matrix(8)})
    np.testing.assert_array_equal(weights[name], source[name])
    assert {key.split(".lora")[0] for key in offsets} == {"blk.0.ffn_down.weight"}


def test_keys_that_stand_alone_are_split_alone(tmp_path: Path) -> None:
    tensors = {f"blk.0.attn_{x}.weight": matrix(8 if x != "q" else 12) for x in "qkv"}
    _, weights, offsets = split(tmp_path, tensors)
    assert set(weights) == set(tensors)
    assert {key.split(".lora")[0] for key in offsets} == {"blk.0.attn_k.weight", "blk.0.attn_v.weight"}


def test_entries_are_kept(tmp_path: Path) -> None:
    source = write_tiny(tmp_path, Tiny("Q4_1"))
    assert write_split(source, tmp_path / "weights.gguf", tmp_path / "offsets.gguf")
    before, after = GGUFReader(source), GGUFReader(tmp_path / "weights.gguf")
    entries = [name for name in before.fields if not name.startswith("GGUF.")]
    assert entries == [name for name in after.fields if not name.startswith("GGUF.")]
    assert [before.fields[name].contents() for name in entries] == [after.fields[name].contents() for name in entries]


def test_file_without_such_matrices_writes_nothing(tmp_path: Path) -> None:
    source = write(tmp_path / "source.gguf", {"blk.0.ffn_up.weight": matrix(8)}, GGMLQuantizationType.Q8_0)
    assert not write_split(source, tmp_path / "weights.gguf", tmp_path / "offsets.gguf")
    assert [path.name for path in tmp_path.iterdir()] == ["source.gguf"]
