"""Writes tensors as safetensors files: one, or several with an index where the model is large."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import TensorSpec, serialize_file

from afterword.export.architecture import tensor_name, tensor_values
from afterword.export.gguf_file import GgufFile

DTYPES = {"float32": 4, "float16": 2, "bfloat16": 2}
"""Bytes of a value of each type that can be written."""

SHARD_BYTES = 4 * 2**30
"""Largest file, and with it about how much memory the export takes."""


def write_weights(source: GgufFile, directory: Path, dtype: str, *, shard_bytes: int = SHARD_BYTES) -> None:
    """Write every tensor of `source` as `dtype`, a key of `DTYPES`."""
    shards = list(_shards(source, DTYPES[dtype], shard_bytes))
    if len(shards) == 1:
        _write(source, shards[0], directory / "model.safetensors", dtype)
        return
    places: dict[str, str] = {}
    for number, names in enumerate(shards, start=1):
        file = f"model-{number:05d}-of-{len(shards):05d}.safetensors"
        _write(source, names, directory / file, dtype)
        places |= {tensor_name(source, name): file for name in names}
    index = {"metadata": {}, "weight_map": places}
    (directory / "model.safetensors.index.json").write_text(json.dumps(index, indent=1), encoding="utf-8")


def _shards(source: GgufFile, value_bytes: int, limit: int) -> Iterator[list[str]]:
    """Names of the tensors of each file, in the order of the source."""
    names: list[str] = []
    size = 0
    for name in source.names():
        n_bytes = source.n_values(name) * value_bytes
        if names and size + n_bytes > limit:
            yield names
            names, size = [], 0
        names.append(name)
        size += n_bytes
    yield names


def _write(source: GgufFile, names: list[str], path: Path, dtype: str) -> None:
    # The library is given addresses: the arrays must live until it has written them.
    arrays = {tensor_name(source, name): as_stored(tensor_values(source, name), dtype) for name in names}
    specs = {
        name: TensorSpec(dtype=dtype, shape=array.shape, data_ptr=array.ctypes.data, data_len=array.nbytes)
        for name, array in arrays.items()
    }
    serialize_file(specs, path, {"format": "pt"})
    path.chmod(0o644)  # the library keeps its files to their owner, unlike the others beside it


def as_stored(values: NDArray[np.float32], dtype: str) -> NDArray[Any]:
    """Little-endian values of a key of `DTYPES`, contiguous, rounded to the nearest, ties to even.

    numpy has no bfloat16: those are given as their bits.
    """
    if dtype == "bfloat16":
        bits = np.ascontiguousarray(values).view(np.uint32)
        # The upper half of a float32; adding just under a half of its last place, and the bit that makes ties even.
        rounded = bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))
        return (rounded >> np.uint32(16)).astype("<u2")
    return np.ascontiguousarray(values.astype("<f2" if dtype == "float16" else "<f4"))
