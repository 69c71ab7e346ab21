"""Llamas of any size with random weights and the vocabulary of the default model, and one of 1.0 B that is kept.

python -m tests.models.random_llama
"""

import sys
import tempfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scripts.native_wheel import only_one_at_a_time
from tests.models.downloads import directory, fetched
from tests.models.gguf_tensors import Tensor, count_entry, read_gguf, write_gguf
from tests.models.requantised import requantise

from afterword.config.model import DEFAULT_MODEL
from afterword.gguf_header import read_entries
from afterword.loading.embedded import model_file

F32, F16 = 0, 1
"""The format's numbers for the types of elements."""

SCALE = 0.02
"""Of the weights, as models are made before they are trained: every token is about as likely as any other."""


@dataclass(frozen=True, slots=True)
class Shape:
    """The lengths that make up a llama. Its embeddings are its output matrix too."""

    n_layers: int
    width: int
    n_heads: int
    n_kv_heads: int
    feed_forward: int

    @property
    def matrices(self) -> dict[str, tuple[int, int]]:
        """Columns and rows of a layer's matrices."""
        kv = self.width // self.n_heads * self.n_kv_heads
        return {
            "attn_q": (self.width, self.width),
            "attn_k": (self.width, kv),
            "attn_v": (self.width, kv),
            "attn_output": (self.width, self.width),
            "ffn_gate": (self.width, self.feed_forward),
            "ffn_up": (self.width, self.feed_forward),
            "ffn_down": (self.feed_forward, self.width),
        }


BILLION = Shape(n_layers=16, width=2048, n_heads=32, n_kv_heads=8, feed_forward=8192)
BILLION_NAME = "random-llama-1.0b.Q4_K_M.gguf"

MakeMatrix = Callable[[str, tuple[int, int]], Tensor]
"""From a tensor's name and its columns and rows to the tensor."""


def billion() -> Path:
    """The model of 1.0 B parameters in Q4_K_M. Raises `FileNotFoundError` if it was not made."""
    return fetched(directory() / BILLION_NAME)


def make_billion() -> None:
    """Make it unless it is there: a minute, and 3 GB of disk meanwhile."""
    target = directory() / BILLION_NAME
    if target.exists():
        return
    print(f"Making {target.name}", file=sys.stderr)
    with tempfile.TemporaryDirectory(dir=directory()) as name:
        floats = write_llama(Path(name) / "floats.gguf", BILLION, _halves)
        requantise(floats, Path(name) / "whole.gguf", "Q4_K_M", n_threads=2).rename(target)


def write_llama(path: Path, shape: Shape, make: MakeMatrix, context: int = 8192) -> Path:
    """Write a llama of that shape with matrices that `make` makes. Returns the path."""
    source = model_file(DEFAULT_MODEL.name)
    file = read_gguf(source)
    with source.open("rb") as head:
        found = read_entries(head)
    entries = file.entries
    lengths = {
        "block_count": shape.n_layers,
        "context_length": context,
        "embedding_length": shape.width,
        "feed_forward_length": shape.feed_forward,
        "attention.head_count": shape.n_heads,
        "attention.head_count_kv": shape.n_kv_heads,
        "rope.dimension_count": shape.width // shape.n_heads,
    }
    for key, length in lengths.items():
        before = count_entry(f"llama.{key}", _count(found, f"llama.{key}"))
        assert entries.count(before) == 1
        entries = entries.replace(before, count_entry(f"llama.{key}", length))
    n_vocab = _count(found, "llama.vocab_size")
    tensors = [make("token_embd.weight", (shape.width, n_vocab)), _ones("output_norm.weight", shape.width)]
    for layer in range(shape.n_layers):
        tensors += [make(f"blk.{layer}.{part}.weight", lengths) for part, lengths in shape.matrices.items()]
        tensors += [_ones(f"blk.{layer}.{part}.weight", shape.width) for part in ("attn_norm", "ffn_norm")]
    write_gguf(path, file.n_entries, entries, tensors)
    return path


def _count(entries: dict[str, object], key: str) -> int:
    found = entries[key]
    assert isinstance(found, int)
    return found


def _ones(name: str, n: int) -> Tensor:
    return Tensor(name, (n,), F32, 4 * n, lambda: np.ones(n, dtype=np.float32).view(np.uint8))


def _halves(name: str, lengths: tuple[int, int]) -> Tensor:
    """A matrix of random numbers in 16 bits, which follow from its name."""
    n = lengths[0] * lengths[1]

    def content() -> NDArray[np.uint8]:
        random = np.random.default_rng(zlib.crc32(name.encode()))
        return (random.standard_normal(n, dtype=np.float32) * np.float32(SCALE)).astype(np.float16).view(np.uint8)

    return Tensor(name, lengths, F16, 2 * n, content)


def main() -> None:
    with only_one_at_a_time(directory() / "fetching.lock"):
        make_billion()


if __name__ == "__main__":
    main()
