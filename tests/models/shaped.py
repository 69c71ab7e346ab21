"""Writes a tiny model with random weights of any architecture that llama.cpp knows.

llama.cpp makes a model of hyper-parameters alone and says which tensors it has, in which shapes; here they get values.
"""

import ctypes
import tempfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import llama_cpp.llama_cpp as c
import numpy as np
from gguf import GGUFWriter
from numpy.typing import NDArray
from tests.models.architectures import COMMON, Value, Values
from tests.models.tiny import Tiny, add_vocabulary

from afterword.engine.llama.binding import LIBRARY, start_backend

Shape = tuple[int, ...]
"""As numpy has it: elements that lie next to each other last."""

N_DIMENSIONS = 4
SHAPE_AT = 16
"""Where a ggml_tensor has its lengths, behind its type and its buffer."""

POSITIVE = ("rope_freqs", "rope_factors")
"""Tensors that something is divided by."""
TIED = 0.05
"""Scale of embeddings that make the logits too, which would be sure of the token that was last."""
DECAYS = ("time_mix_decay.weight", "time_mix_w0.weight")


def write_model(path: Path, architecture: str, values: Values) -> Path:
    """Write the model with the vocabulary of `Tiny`; always the same bytes. Returns the path."""
    tensors = _tensors(architecture, values)
    with _writer(path, architecture, values) as writer:
        for name, shape in tensors.items():
            tied = name == "token_embd.weight" and "output.weight" not in tensors
            writer.add_tensor(name, _weights(name, shape) * np.float32(TIED if tied else 1))
    return path


def _tensors(architecture: str, values: Values) -> dict[str, Shape]:
    """What llama.cpp says the model has."""
    found: dict[str, Shape] = {}

    def note(tensor: int, _data: object) -> None:
        lengths = list((ctypes.c_int64 * N_DIMENSIONS).from_address(tensor + SHAPE_AT))
        while len(lengths) > 1 and lengths[-1] == 1:
            del lengths[-1]
        found[_library().ggml_get_name(tensor).decode()] = tuple(reversed(lengths))

    start_backend()
    with tempfile.TemporaryDirectory() as directory:
        head = Path(directory) / "head.gguf"
        with _writer(head, architecture, values):
            pass
        entries = _library().gguf_init_from_file(str(head).encode(), _NothingAllocated(True, None))
    model = c.llama_model_init_from_user(
        entries, c.llama_model_set_tensor_data_t(note), None, c.llama_model_default_params()
    )
    assert model, f"llama.cpp makes no {architecture} of {values}"
    c.llama_model_free(model)
    _library().gguf_free(entries)
    return found


@contextmanager
def _writer(path: Path, architecture: str, values: Values) -> Iterator[GGUFWriter]:
    """A file with the entries; the block adds tensors."""
    writer = GGUFWriter(path, architecture)
    merged: Mapping[str, Value] = {**COMMON, **values}
    for key, value in merged.items():
        add_entry(writer, key[1:] if key.startswith(":") else f"{architecture}.{key}", value)
    add_vocabulary(writer, Tiny())
    yield writer
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def add_entry(writer: GGUFWriter, key: str, value: Value) -> None:
    """An entry of the type that llama.cpp expects of such a value."""
    match value:
        case bool():
            writer.add_bool(key, value)
        case int():
            writer.add_uint32(key, value)
        case float():
            writer.add_float32(key, value)
        case str():
            writer.add_string(key, value)
        case _:
            writer.add_array(key, list(value))


def _weights(name: str, shape: Shape) -> NDArray[np.float32]:
    """Random numbers that make likely and unlikely tokens, and states that are long remembered."""
    random = np.random.default_rng(zlib.crc32(name.encode()))
    numbers = random.standard_normal(shape)
    if name.endswith("ssm_a"):
        numbers = -0.02 * np.exp(0.5 * numbers)
    elif name.endswith(DECAYS):
        numbers = 0.5 * numbers - 5
    elif name.startswith(POSITIVE):
        numbers = 1 + np.abs(numbers)
    elif name.endswith("norm.weight"):
        numbers = 1 + 0.1 * numbers
    elif len(shape) == 1:
        numbers *= 0.2
    elif name == "output.weight":
        numbers *= 0.15
    elif name != "token_embd.weight":
        numbers *= 1.5 / np.sqrt(shape[-1])
    return numbers.astype(np.float32)


class _NothingAllocated(ctypes.Structure):
    """gguf_init_params."""

    _fields_ = (("no_alloc", ctypes.c_bool), ("ctx", ctypes.c_void_p))


@cache
def _library() -> Any:
    LIBRARY.gguf_init_from_file.argtypes = [ctypes.c_char_p, _NothingAllocated]
    LIBRARY.gguf_init_from_file.restype = ctypes.c_void_p
    LIBRARY.gguf_free.argtypes = [ctypes.c_void_p]
    LIBRARY.ggml_get_name.argtypes = [ctypes.c_void_p]
    LIBRARY.ggml_get_name.restype = ctypes.c_char_p
    return LIBRARY
