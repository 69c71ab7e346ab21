"""Headers of GGUF files, written by the format's own library."""

from pathlib import Path

import pytest
from gguf import GGUFWriter

from afterword.errors import ConfigurationError
from afterword.gguf_header import GgufHeader, read_header


def write(path: Path, tokens: list[str], fim_prefix: int | None = None) -> Path:
    writer = GGUFWriter(path, "llama")
    writer.add_context_length(2048)
    writer.add_rope_freq_base(10000.0)
    writer.add_add_bos_token(False)
    writer.add_token_list(tokens)
    writer.add_token_types([1] * len(tokens))
    if fim_prefix is not None:
        writer.add_uint32("tokenizer.ggml.fim_pre_token_id", fim_prefix)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    return path


@pytest.mark.parametrize(
    ("tokens", "fim_prefix", "can_infill"),
    [
        pytest.param(["a", "b"], None, False, id="none"),
        pytest.param(["a", "b"], 1, True, id="by metadata"),
        pytest.param(["a", "<|fim_prefix|>"], None, True, id="by name"),
    ],
)
def test_a_header_tells_architecture_context_and_infill(
    tmp_path: Path, tokens: list[str], fim_prefix: int | None, can_infill: bool
) -> None:
    path = write(tmp_path / "m.gguf", tokens, fim_prefix)
    assert read_header(path) == GgufHeader("llama", 2048, can_infill)


@pytest.mark.parametrize("length", [0, 3, 8, 20, 40, 120])
def test_a_file_that_breaks_off_is_refused(tmp_path: Path, length: int) -> None:
    path = write(tmp_path / "m.gguf", ["a", "b"])
    path.write_bytes(path.read_bytes()[:length])
    with pytest.raises(ConfigurationError, match=r"m\.gguf is not a GGUF file of version 2 or 3\."):
        read_header(path)


@pytest.mark.parametrize(
    "content", [b"GGML" + b"\0" * 40, b"GGUF\x01\0\0\0" + b"\0" * 40, b"GGUF\x03\0\0\0" + b"\xff" * 40]
)
def test_another_format_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes(content)
    with pytest.raises(ConfigurationError, match=r"m\.gguf is not a GGUF file"):
        read_header(path)


def test_a_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="cannot be read: Is a directory"):
        read_header(tmp_path)
