"""Writes vocabularies of SentencePiece's and WordPiece's kinds as GGUF files without weights; ▁ is a space."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from gguf import GGUFWriter, TokenType
from tests.models.architectures import COMMON
from tests.models.shaped import add_entry

SPECIAL = {"<unk>": TokenType.UNKNOWN, "<s>": TokenType.CONTROL, "</s>": TokenType.CONTROL}

PIECES = ("▁", *"abcdefghijklmnopqrstuvwxyz", "▁d", "▁de", "▁def", "▁x", "th", "the", "▁the")


@dataclass(frozen=True, slots=True)
class Spm:
    """What a vocabulary is like. Its ids are those of `SPECIAL`, the bytes if it has them, `PIECES`, and `more`."""

    has_bytes: bool = True
    more: Mapping[str, TokenType] = field(default_factory=dict)
    keys: Mapping[str, int] = field(default_factory=dict)
    """Entries below `tokenizer.ggml.`."""

    @property
    def tokens(self) -> dict[str, TokenType]:
        """All tokens with their types, in order."""
        all_bytes = {f"<0x{byte:02X}>": TokenType.BYTE for byte in range(256)} if self.has_bytes else {}
        return {**SPECIAL, **all_bytes, **dict.fromkeys(PIECES, TokenType.NORMAL), **self.more}

    def id(self, spelled: str) -> int:
        """The id of a token."""
        return list(self.tokens).index(spelled)


def write_spm(path: Path, spm: Spm) -> Path:
    """Write the vocabulary; returns the path."""
    writer = _begun(path, "llama")
    writer.add_token_list(list(spm.tokens))
    # The longer a token, the sooner it is joined.
    writer.add_token_scores([float(len(token)) for token in spm.tokens])
    writer.add_token_types(list(spm.tokens.values()))
    for key, value in spm.keys.items():
        add_entry(writer, f"tokenizer.ggml.{key}", value)
    _end(writer)
    return path


def write_wpm(path: Path, tokens: list[str]) -> Path:
    """Write a vocabulary of whole words without an unknown token; returns the path."""
    writer = _begun(path, "bert")
    writer.add_token_list(tokens)
    writer.add_token_types([TokenType.NORMAL] * len(tokens))
    for name in ("unknown", "seperator", "padding", "cls", "mask", "bos", "eos"):
        writer.add_uint32(f"tokenizer.ggml.{name}_token_id", 2**32 - 1)
    _end(writer)
    return path


def _begun(path: Path, kind: str) -> GGUFWriter:
    writer = GGUFWriter(path, "llama")
    for key, value in COMMON.items():
        add_entry(writer, key[1:] if key.startswith(":") else f"llama.{key}", value)
    writer.add_tokenizer_model(kind)
    return writer


def _end(writer: GGUFWriter) -> None:
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
