"""Reads and checks the head of a GGUF file (versions 2 and 3): what it says of its model, and whether it is sound.

The layout is the format's public specification: magic, version, counts, then key, type and value of each entry, then
name, shape, type and place of each tensor, all little-endian; the tensors' bytes follow, in the same order, each at a
multiple of the alignment. llama.cpp is given no file that breaks this. Takes milliseconds to a second and little
memory; the limits below bound both for any file.
"""

import os
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import BinaryIO

from afterword.errors import ConfigurationError
from afterword.gguf_types import FILE_TYPES
from afterword.text.brief import brief

MAGIC = b"GGUF"
VERSIONS = (2, 3)

SCALARS = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q", 11: "<q", 12: "<d"}
"""Format of each scalar type's number."""
TEXT, ARRAY = 8, 9
LENGTH = struct.Struct("<Q")

BLOCKS = {
    **{0: (1, 4), 1: (1, 2), 30: (1, 2), 28: (1, 8), 24: (1, 1), 25: (1, 2), 26: (1, 4), 27: (1, 8)},
    **{2: (32, 18), 3: (32, 20), 6: (32, 22), 7: (32, 24), 8: (32, 34), 9: (32, 36), 20: (32, 18), 39: (32, 17)},
    **{10: (256, 84), 11: (256, 110), 12: (256, 144), 13: (256, 176), 14: (256, 210), 15: (256, 292)},
    **{16: (256, 66), 17: (256, 74), 18: (256, 98), 19: (256, 50), 21: (256, 110), 22: (256, 82), 23: (256, 136)},
    **{29: (256, 56), 34: (256, 54), 35: (256, 66), 40: (64, 36), 41: (128, 18), 42: (64, 18)},
}
"""Of each type of tensor: elements of a block, and bytes of a block."""

MAX_ENTRIES = MAX_TENSORS = 1 << 16
MAX_TEXTS = 1 << 22
"""In all arrays together; the largest vocabularies have a million with their merges."""
MAX_HEAD = 1 << 27
"""Bytes before the tensors."""
MAX_KEY = (1 << 16) - 1
MAX_NAME = 63
"""Bytes of a tensor's name: llama.cpp keeps 64 with the zero at the end."""
MAX_DIMENSIONS = 4
MAX_ELEMENTS = (1 << 63) - 1
MAX_KEPT = 1 << 12
"""Numbers that are kept of all arrays together: one for each layer, say. What goes beyond is passed over."""
MAX_KEPT_TEXT = 255
"""Bytes that are kept of a text."""

ALIGNMENT = "general.alignment"
TOKENS = "tokenizer.ggml.tokens"

INFILL_TEXTS = frozenset(
    {
        b"<|fim_prefix|>",
        b"<fim-prefix>",
        b"<fim_prefix>",
        b"<PRE>",
        "\u2581<PRE>".encode(),
        "<\uff5cfim\u2581begin\uff5c>".encode(),
        b"<|code_prefix|>",
    }
)
"""How models spell the token that begins an infill prompt where their metadata does not point to it."""


@dataclass(frozen=True, slots=True)
class GgufHeader:
    """What a file says about its model."""

    architecture: str
    trained_context: int | None
    """Tokens."""
    n_layers: int
    """0 if it does not say."""
    can_infill: bool
    tensor_bytes: int
    """Bytes of all tensors in this file."""
    cell_bytes: int
    """Bytes that one token of context takes in all layers, with keys and values of 16 bits; 0 if it does not say."""
    quantisation: str | None = None
    """Such as Q4_K_M."""
    title: str | None = None
    """What its makers call it."""
    licence: str | None = None
    has_chat_template: bool = False


class Unsound(ValueError):
    """The file breaks the format; the message says where, as the end of a sentence."""


def read_header(path: Path) -> GgufHeader:
    """The header of the file at `path`. Raises `ConfigurationError` in one sentence if it is none or unsound."""
    try:
        with path.open("rb") as file:
            entries, tensor_bytes = _read_all(file)
    except Unsound as error:
        raise ConfigurationError(f"The model file {path} cannot be loaded: {error}.") from None
    except OSError as error:
        raise ConfigurationError(f"The model file {path} cannot be read: {error.strerror}.") from error
    architecture = str(entries.get("general.architecture", "unknown"))
    context = entries.get(f"{architecture}.context_length")
    n_layers = entries.get(f"{architecture}.block_count")
    by_id = any(key in entries for key in ("tokenizer.ggml.fim_pre_token_id", "tokenizer.ggml.prefix_token_id"))
    return GgufHeader(
        architecture,
        context if isinstance(context, int) else None,
        n_layers if isinstance(n_layers, int) else 0,
        by_id or entries.get(TOKENS) is True,
        tensor_bytes,
        _cell_bytes(architecture, entries),
        _quantisation(entries),
        _text(entries, "general.name"),
        _text(entries, "general.license"),
        "tokenizer.chat_template" in entries,
    )


def read_entries(file: BinaryIO) -> dict[str, object]:
    """All keys, with the values that are kept; the file is left behind them, where its tensors are listed.

    Of texts in arrays nothing is kept but, for the vocabulary, whether one of them is in `INFILL_TEXTS`. Raises
    `Unsound`.
    """
    cursor = _Cursor(file)
    return _entries(cursor, _counts(cursor)[1])


def _read_all(file: BinaryIO) -> tuple[dict[str, object], int]:
    """The entries, and the bytes of all tensors, which are checked to be in the file."""
    cursor = _Cursor(file)
    n_tensors, n_entries = _counts(cursor)
    entries = _entries(cursor, n_entries)
    return entries, _tensors(cursor, n_tensors, _alignment(entries))


class _Cursor:
    """Reads a file forward, and never beyond its end or `MAX_HEAD`."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.size = os.fstat(file.fileno()).st_size
        self.at = file.tell()
        self.n_texts = 0
        """Texts of arrays so far."""
        self.n_kept = 0
        """Numbers of arrays so far."""

    def number(self, form: str) -> int | float:
        found: int | float = struct.unpack(form, self.take(struct.calcsize(form)))[0]
        return found

    def whole(self, form: str) -> int:
        return int(self.number(form))

    def take(self, length: int) -> bytes:
        self._pass(length)
        content = self._file.read(length)
        if len(content) < length:
            raise Unsound("it ends within its header")
        return content

    def skip(self, length: int) -> None:
        self._pass(length)
        self._file.seek(length, os.SEEK_CUR)

    def text(self) -> bytes:
        return self.take(LENGTH.unpack(self.take(LENGTH.size))[0])

    def _pass(self, length: int) -> None:
        self.at += length
        if self.at > self.size:
            raise Unsound("it ends within its header")
        if self.at > MAX_HEAD:
            raise Unsound(f"its header has more than {MAX_HEAD} bytes")


def _counts(cursor: _Cursor) -> tuple[int, int]:
    """Tensors and entries."""
    magic = cursor.take(min(4, cursor.size))
    if magic != MAGIC:
        raise Unsound(f"it begins with {magic!r}, not {MAGIC!r}")
    version = cursor.whole("<I")
    if version not in VERSIONS:
        raise Unsound(f"its version is {version}, not 2 or 3")
    n_tensors, n_entries = cursor.whole("<Q"), cursor.whole("<Q")
    for what, count, most in (("tensors", n_tensors, MAX_TENSORS), ("entries", n_entries, MAX_ENTRIES)):
        if count > most:
            raise Unsound(f"it claims {count} {what}, more than {most}")
    return n_tensors, n_entries


def _entries(cursor: _Cursor, n_entries: int) -> dict[str, object]:
    entries: dict[str, object] = {}
    for number in range(n_entries):
        data = cursor.text()
        key = data.decode("utf-8", "replace")
        if not 0 < len(data) <= MAX_KEY:
            raise Unsound(f"the key of its entry {number} has {len(data)} bytes")
        if key in entries:
            raise Unsound(f"it has the entry {brief(key)} twice")
        entries[key] = _value(cursor, key)
    return entries


def _value(cursor: _Cursor, key: str) -> object:
    kind = cursor.whole("<I")
    if kind == TEXT:
        return cursor.text()[:MAX_KEPT_TEXT].decode("utf-8", "replace")
    if kind == ARRAY:
        return _array(cursor, key)
    return cursor.number(_form(kind, key))


def _array(cursor: _Cursor, key: str) -> object:
    kind, length = cursor.whole("<I"), cursor.whole("<Q")
    if kind == TEXT:
        return _texts(cursor, key, length)
    form = _form(kind, key)
    if cursor.n_kept + length > MAX_KEPT:
        cursor.skip(length * struct.calcsize(form))
        return None
    cursor.n_kept += length
    return [cursor.number(form) for _ in range(length)]


def _texts(cursor: _Cursor, key: str, length: int) -> bool:
    """Whether one of the texts begins an infill prompt; they are passed over."""
    cursor.n_texts += length
    if cursor.n_texts > MAX_TEXTS:
        raise Unsound(f"its arrays have more than {MAX_TEXTS} texts, at the entry {brief(key)}")
    # All are read, also after one was found.
    return sum(cursor.text() in INFILL_TEXTS for _ in range(length)) > 0


def _form(kind: int, key: str) -> str:
    form = SCALARS.get(kind)
    if form is None:
        raise Unsound(f"its entry {brief(key)} is of the type {kind}, which there is not")
    return form


def _alignment(entries: Mapping[str, object]) -> int:
    alignment = entries.get(ALIGNMENT, 32)
    if not isinstance(alignment, int) or alignment < 1 or alignment & (alignment - 1) != 0:
        raise Unsound(f"its entry {ALIGNMENT} is not a power of two")
    return alignment


def _tensors(cursor: _Cursor, n_tensors: int, alignment: int) -> int:
    """The bytes of all tensors. Each begins where the one before it ends, and the last ends in the file."""
    names: set[bytes] = set()
    total = expected = end = 0
    for number in range(n_tensors):
        name = cursor.text()
        if len(name) > MAX_NAME or name in names:
            what = f"has {len(name)} bytes, more than {MAX_NAME}" if len(name) > MAX_NAME else "is that of another"
            raise Unsound(f"the name of its tensor {number} {what}")
        names.add(name)
        said = brief(name.decode("utf-8", "replace"))
        size = _tensor_size(cursor, said)
        at = cursor.whole("<Q")
        if at != expected:
            raise Unsound(f"its tensor {said} begins at {at}, not at {expected} where the one before it ends")
        total, end = total + size, at + size
        expected = -(-end // alignment) * alignment
    data = -(-cursor.at // alignment) * alignment
    if n_tensors > 0 and data + end > cursor.size:
        raise Unsound(f"it has {cursor.size} bytes, but its tensors end at {data + end}")
    return total


def _tensor_size(cursor: _Cursor, said: str) -> int:
    """Bytes of a tensor, from its shape and type."""
    n_dimensions = cursor.whole("<I")
    if n_dimensions > MAX_DIMENSIONS:
        raise Unsound(f"its tensor {said} has {n_dimensions} dimensions, more than {MAX_DIMENSIONS}")
    shape = [cursor.whole("<Q") for _ in range(n_dimensions)]
    n_elements = prod(shape)
    if not 0 < n_elements <= MAX_ELEMENTS:
        raise Unsound(f"its tensor {said} has {n_elements} elements")
    kind = cursor.whole("<I")
    if kind not in BLOCKS:
        raise Unsound(f"its tensor {said} is of the type {kind}, which llama.cpp does not read")
    of_block, block_bytes = BLOCKS[kind]
    row = shape[0] if shape else 1
    if row % of_block != 0:
        raise Unsound(f"its tensor {said} has rows of {row} elements, not of whole blocks of {of_block}")
    return n_elements // of_block * block_bytes


def _quantisation(entries: Mapping[str, object]) -> str | None:
    kind = entries.get("general.file_type")
    return FILE_TYPES.get(kind) if isinstance(kind, int) else None


def _text(entries: Mapping[str, object], key: str) -> str | None:
    found = entries.get(key)
    return found if isinstance(found, str) and found.strip() else None


def _cell_bytes(architecture: str, entries: Mapping[str, object]) -> int:
    def numbers(key: str) -> list[int]:
        """One for the model, or one for each layer."""
        found = entries.get(f"{architecture}.{key}")
        listed = found if isinstance(found, list) else [found]
        return [number for number in listed if isinstance(number, int) and number > 0]

    layers, width, heads = numbers("block_count"), numbers("embedding_length"), numbers("attention.head_count")
    if not (layers and width and heads):
        return 0
    with_keys = numbers("attention.head_count_kv") or heads
    n_heads = sum(with_keys) if len(with_keys) > 1 else layers[0] * with_keys[0]
    head = width[0] // max(heads)
    key, value = (numbers(f"attention.{part}_length") or [head] for part in ("key", "value"))
    return 2 * n_heads * (key[0] + value[0])
