"""The default model without most of its layers: real weights, every kernel and shape of the whole, a third of the work.

For tests of how something is computed, whatever comes out.
"""

import re
from pathlib import Path

from tests.models.gguf_tensors import Tensor, count_entry, read_gguf, write_gguf

from afterword.config.model import DEFAULT_MODEL
from afterword.loading.embedded import model_file

N_LAYERS = 6


def write_short(directory: Path) -> Path:
    """Write the default model with its first layers only, under its own name. Returns the file's path."""
    source = model_file(DEFAULT_MODEL.name)
    file = read_gguf(source)
    key = f"{file.architecture}.block_count"
    whole, short = (count_entry(key, n) for n in (1 + max(map(_layer, file.tensors)), N_LAYERS))
    assert file.entries.count(whole) == 1
    path = directory / source.name
    kept = [tensor for tensor in file.tensors if _layer(tensor) < N_LAYERS]
    write_gguf(path, file.n_entries, file.entries.replace(whole, short), kept)
    return path


def _layer(tensor: Tensor) -> int:
    """The layer that a tensor belongs to, -1 for those outside of all."""
    found = re.match(r"blk\.(\d+)\.", tensor.name)
    return -1 if found is None else int(found[1])
