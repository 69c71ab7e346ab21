"""Q4_1 matrices as the sum of two products that llama.cpp has fast kernels for.

A Q4_1 weight is d*q + m with q in 0..15, d and m one a block of 32. As d*(q - 8) + (m + 8*d) the first part is a Q4_0
weight with the same d and the same q, to the bit. The second is the same for a whole block, so its product needs only
the sums of the input's blocks: an adapter of the matrices `lora_a`, which sums, and `lora_b`, which holds m + 8*d.
llama.cpp adds such adapters to any product, and has repacked kernels for Q4_0, but none for Q4_1.

The first is Q4_0, which holds its zeros and ones exactly in half of Q8_0's bytes, the second Q8_0: with quantised types
no product depends on how many rows it has (arithmetic.py). Queries, keys and values of a layer become one matrix, which
saves products. What is not Q4_1 stays as it is.
"""

import re
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from afterword.engine.llama.gguf_tensors import Tensor, number_entry, read_gguf, text_entry, write_gguf

Q4_0, Q4_1, Q8_0 = 2, 3, 8
"""The format's numbers for these types."""

BLOCK = 32
"""Weights that share a scale, in all three types."""
BYTES = {Q4_0: 18, Q4_1: 20, Q8_0: 34}
"""Of a block."""

ROWS_TOGETHER = 8
"""Rows that the repacked kernel takes at once: matrices with others are left alone."""

LINEAR = re.compile(r"blk\.\d+\.(attn_(q|k|v|qkv|output)|ffn_(gate|up|down))\.weight")
"""Matrices whose products llama.cpp adds adapters to, in whatever architecture."""


def write_split(source: Path, weights: Path, offsets: Path) -> bool:
    """Write the file's matrices without their offsets, and the offsets as an adapter; False if it has none to split.

    Raises `OSError`, and `ValueError` if the source is not as it should be.
    """
    file = read_gguf(source)
    kept: list[Tensor] = []
    added: list[Tensor] = []
    for parts in _joined(file.tensors):
        if _splits(parts[0]):
            matrix, pair = _halves(parts)
            kept.append(matrix)
            added += pair
        else:
            kept += parts
    if not added:
        return False
    entries = [
        text_entry("general.type", "adapter"),
        text_entry("general.architecture", file.architecture),
        text_entry("adapter.type", "lora"),
        # 0: the product is added as it is.
        number_entry("adapter.lora.alpha", 0.0),
    ]
    write_gguf(offsets, len(entries), b"".join(entries), added)
    write_gguf(weights, file.n_entries, file.entries, kept)
    return True


def _splits(tensor: Tensor) -> bool:
    fits = len(tensor.shape) == 2 and tensor.shape[1] % ROWS_TOGETHER == 0
    return tensor.kind == Q4_1 and fits and LINEAR.fullmatch(tensor.name) is not None


def _joined(tensors: Sequence[Tensor]) -> Iterator[list[Tensor]]:
    """Each tensor alone, but a layer's queries, keys and values together where all three can be split."""
    by_name = {tensor.name: tensor for tensor in tensors}
    for tensor in tensors:
        names = [re.sub(r"attn_[qkv]\.", f"attn_{x}.", tensor.name) for x in "qkv"]
        trio = [by_name[name] for name in names if name in by_name]
        if names[0] == names[1] or len(trio) < len(names) or not all(map(_splits, trio)):
            yield [tensor]
        elif tensor is trio[0]:
            yield trio


def _halves(parts: Sequence[Tensor]) -> tuple[Tensor, list[Tensor]]:
    """Q4_1 matrices of one width, as one Q4_0 matrix and the two of its adapter."""
    width, n_rows = parts[0].shape[0], sum(part.shape[1] for part in parts)
    name = parts[0].name if len(parts) == 1 else parts[0].name.replace("attn_q.", "attn_qkv.")
    # A Q8_0 row is whole blocks: the sums of blocks that do not exist are zero.
    rank = -(-width // BLOCK // BLOCK) * BLOCK

    def tensor(kind: int, suffix: str, shape: tuple[int, int], content: partial[NDArray[np.uint8]]) -> Tensor:
        return Tensor(name + suffix, shape, kind, shape[0] // BLOCK * shape[1] * BYTES[kind], content)

    return tensor(Q4_0, "", (width, n_rows), partial(_without_offsets, parts)), [
        tensor(Q4_0, ".lora_a", (width, rank), partial(_sums, width // BLOCK, rank)),
        tensor(Q8_0, ".lora_b", (rank, n_rows), partial(_offsets, parts, width // BLOCK, rank)),
    ]


def _blocks(parts: Sequence[Tensor]) -> NDArray[np.uint8]:
    """(blocks, 20): d and m in half precision, then two q a byte."""
    size = BYTES[Q4_1]
    contents = [part.content()[: part.shape[0] * part.shape[1] // BLOCK * size] for part in parts]
    return np.concatenate(contents).reshape(-1, size)


def _without_offsets(parts: Sequence[Tensor]) -> NDArray[np.uint8]:
    """Q4_0 packs its q like Q4_1 does, so m is all that goes."""
    return np.delete(_blocks(parts), [2, 3], axis=1).reshape(-1)


def _sums(n_blocks: int, rank: int) -> NDArray[np.uint8]:
    """A (rank, n_blocks * 32) matrix of Q4_0 whose row i is 1 throughout block i and 0 elsewhere."""
    zeros, ones = 0x88, 0x99  # Two q a byte: a weight is d*(q - 8), and d is 1.
    blocks = np.full((rank, n_blocks, BYTES[Q4_0]), zeros, dtype=np.uint8)
    blocks[:, :, :2] = np.ones(1, dtype=np.float16).view(np.uint8)
    blocks[np.arange(n_blocks), np.arange(n_blocks), 2:] = ones
    return blocks.reshape(-1)


def _offsets(parts: Sequence[Tensor], n_blocks: int, rank: int) -> NDArray[np.uint8]:
    """A (rows, rank) matrix of Q8_0: m + 8*d of each block."""
    d, m = np.ascontiguousarray(_blocks(parts)[:, :4]).view(np.float16).astype(np.float32).T
    offsets = (m + 8 * d).reshape(-1, n_blocks)
    padded = np.pad(offsets, ((0, 0), (0, rank - n_blocks))).reshape(len(offsets), -1, BLOCK)
    scale = (np.abs(padded).max(axis=2, keepdims=True) / 127).astype(np.float16)
    divisor = np.where(scale == 0, np.float32(1), scale.astype(np.float32))
    return _q8_0(scale, np.clip(np.rint(padded / divisor), -127, 127).astype(np.int8))


def _q8_0(scale: NDArray[np.float16], numbers: NDArray[np.int8]) -> NDArray[np.uint8]:
    """Scales (rows, blocks, 1) and numbers (rows, blocks, 32) as bytes."""
    return np.concatenate([scale.view(np.uint8), numbers.view(np.uint8)], axis=2).reshape(-1)
