"""The tensors of a GGUF file, and a writer of files with other tensors. Knows no model library and no tensor type.

The layout is the format's public specification: the head (see `gguf_header`), then name, shape, type and place of each
tensor, then their bytes, each at a multiple of the alignment.
"""

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from afterword.gguf_header import MAGIC, read_entries

VERSION = 3
ALIGNMENT = 32
"""Of files that name none, and of those written here."""
COUNTS_END = 24
"""Bytes of magic, version and the two counts."""

U32, F32, TEXT = 4, 6, 8
"""The format's numbers for the types of values."""


@dataclass(frozen=True, slots=True)
class Tensor:
    """One tensor's place in a file, or the content it will have there."""

    name: str
    shape: tuple[int, ...]
    """Elements along each dimension, those that lie next to each other first."""
    kind: int
    """The format's number for the type of its elements."""
    size: int
    """Bytes."""
    content: Callable[[], NDArray[np.uint8]]
    """Reads or makes the (size,) bytes."""


@dataclass(frozen=True, slots=True)
class GgufFile:
    """A file's entries, unparsed, and its tensors."""

    architecture: str
    n_entries: int
    entries: bytes
    tensors: tuple[Tensor, ...]


def read_gguf(path: Path) -> GgufFile:
    """Everything but the tensors' bytes, which stay in the file. Raises `ValueError` or `OSError` if it is none."""
    with path.open("rb") as file:
        found = read_entries(file)
        end = file.tell()
        file.seek(len(MAGIC) + 4)
        n_tensors, n_entries = struct.unpack("<QQ", file.read(16))
        entries = file.read(end - COUNTS_END)
        infos = [_info(file) for _ in range(n_tensors)]
        alignment = found.get("general.alignment", ALIGNMENT)
        if not isinstance(alignment, int):
            raise ValueError(f"the alignment of {path} is {alignment!r}")
        start = -(-file.tell() // alignment) * alignment
    data = np.memmap(path, dtype=np.uint8, mode="r", offset=start)
    # What follows a tensor up to the next is padding, of which one more byte does no harm.
    ends = dict(zip((places := sorted(info[3] for info in infos)), [*places[1:], len(data)], strict=True))
    tensors = tuple(_resident(name, shape, kind, data[at : ends[at]]) for name, shape, kind, at in infos)
    return GgufFile(str(found["general.architecture"]), n_entries, entries, tensors)


def write_gguf(path: Path, n_entries: int, entries: bytes, tensors: Sequence[Tensor]) -> None:
    """A new file; every tensor's bytes are made when their turn comes."""
    with path.open("wb") as file:
        file.write(MAGIC + struct.pack("<IQQ", VERSION, len(tensors), n_entries) + _realigned(entries))
        at = 0
        for tensor in tensors:
            shape = struct.pack(f"<I{len(tensor.shape)}Q", len(tensor.shape), *tensor.shape)
            file.write(text_bytes(tensor.name) + shape + struct.pack("<IQ", tensor.kind, at))
            at += -(-tensor.size // ALIGNMENT) * ALIGNMENT
        _pad(file)
        for tensor in tensors:
            content = tensor.content()
            assert content.nbytes == tensor.size, f"{tensor.name} has {content.nbytes} bytes, not {tensor.size}"
            file.write(content.tobytes())
            _pad(file)


def text_bytes(text: str) -> bytes:
    """A text as the format writes it."""
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def text_entry(key: str, text: str) -> bytes:
    """An entry whose value is a text."""
    return text_bytes(key) + struct.pack("<I", TEXT) + text_bytes(text)


def count_entry(key: str, count: int) -> bytes:
    """An entry whose value is a 32-bit whole number."""
    return text_bytes(key) + struct.pack("<II", U32, count)


def number_entry(key: str, number: float) -> bytes:
    """An entry whose value is a 32-bit float."""
    return text_bytes(key) + struct.pack("<If", F32, number)


def _info(file: BinaryIO) -> tuple[str, tuple[int, ...], int, int]:
    """Name, shape, type and place of the next tensor."""
    (length,) = struct.unpack("<Q", file.read(8))
    name = file.read(length).decode()
    (n_dimensions,) = struct.unpack("<I", file.read(4))
    shape = struct.unpack(f"<{n_dimensions}Q", file.read(8 * n_dimensions))
    kind, at = struct.unpack("<IQ", file.read(12))
    return name, shape, kind, at


def _resident(name: str, shape: tuple[int, ...], kind: int, content: NDArray[np.uint8]) -> Tensor:
    return Tensor(name, shape, kind, len(content), lambda: content)


def _realigned(entries: bytes) -> bytes:
    """The entries of a file with the alignment that is written here."""
    key = text_bytes("general.alignment") + struct.pack("<I", U32)
    at = entries.find(key)
    if at < 0:
        return entries
    at += len(key)
    return entries[:at] + struct.pack("<I", ALIGNMENT) + entries[at + 4 :]


def _pad(file: BinaryIO) -> None:
    file.write(bytes(-file.tell() % ALIGNMENT))
