"""Reads the metadata at the head of a GGUF file (versions 2 and 3) without its tensors: milliseconds, no library.

The layout is the format's public specification: magic, version, counts, then key, type and value of each entry, all
little-endian. Arrays are read only for the vocabulary's texts, which show whether a model can fill in.
"""

import struct
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from afterword.errors import ConfigurationError

MAGIC = b"GGUF"
VERSIONS = (2, 3)

SCALARS = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q", 11: "<q", 12: "<d"}
"""Format of each scalar type's number."""
TEXT, ARRAY = 8, 9

INFILL_TEXTS = frozenset(
    {
        "<|fim_prefix|>",
        "<fim-prefix>",
        "<fim_prefix>",
        "<PRE>",
        "\u2581<PRE>",
        "<\uff5cfim\u2581begin\uff5c>",
        "<|code_prefix|>",
    }
)
"""How models spell the token that begins an infill prompt where their metadata does not point to it."""


@dataclass(frozen=True, slots=True)
class GgufHeader:
    """What a file says about its model."""

    architecture: str
    trained_context: int | None
    """Tokens."""
    can_infill: bool


def read_header(path: Path) -> GgufHeader:
    """The header of the file at `path`. Raises `ConfigurationError` if it is none."""
    try:
        with path.open("rb") as file:
            entries = read_entries(file)
    except (struct.error, UnicodeDecodeError, MemoryError, OverflowError, ValueError, KeyError):
        raise ConfigurationError(f"{path} is not a GGUF file of version 2 or 3.") from None
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be read: {error.strerror}.") from error
    architecture = str(entries.get("general.architecture", "unknown"))
    context = entries.get(f"{architecture}.context_length")
    texts = entries.get("tokenizer.ggml.tokens")
    by_name = isinstance(texts, list) and not INFILL_TEXTS.isdisjoint(texts)
    by_id = any(key in entries for key in ("tokenizer.ggml.fim_pre_token_id", "tokenizer.ggml.prefix_token_id"))
    return GgufHeader(architecture, context if isinstance(context, int) else None, by_id or by_name)


def read_entries(file: BinaryIO) -> dict[str, object]:
    """All keys, with the values that are kept; the file is left behind them, where its tensors are listed.

    Raises `ValueError` if the file does not begin like GGUF, and other errors where it ends too early.
    """
    if file.read(4) != MAGIC or _number(file, "<I") not in VERSIONS:
        raise ValueError
    _n_tensors, n_entries = _number(file, "<Q"), _number(file, "<Q")
    entries: dict[str, object] = {}
    for _ in range(int(n_entries)):
        key = _text(file)
        entries[key] = _value(file, int(_number(file, "<I")))
    return entries


def _value(file: BinaryIO, kind: int) -> object:
    if kind == TEXT:
        return _text(file)
    if kind != ARRAY:
        return _number(file, SCALARS[kind])
    kind, length = int(_number(file, "<I")), int(_number(file, "<Q"))
    if kind == TEXT:
        return [_text(file) for _ in range(length)]
    if kind == ARRAY:
        raise ValueError
    file.seek(length * struct.calcsize(SCALARS[kind]), 1)
    return None


def _number(file: BinaryIO, form: str) -> float:
    number: float = struct.unpack(form, file.read(struct.calcsize(form)))[0]
    return number


def _text(file: BinaryIO) -> str:
    length = int(_number(file, "<Q"))
    content = file.read(length)
    if len(content) < length:
        raise ValueError
    return content.decode("utf-8", "replace")
