"""Headers of GGUF files: written by the format's own library, and byte by byte where they are unsound."""

import struct
from pathlib import Path

import pytest
from gguf import GGUFWriter

from afterword.errors import ConfigurationError
from afterword.gguf_header import MAX_HEAD, MAX_KEPT, MAX_TEXTS, GgufHeader, read_header

U32, F32, TEXT, ARRAY = 4, 6, 8, 9


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


def text(written: str) -> bytes:
    data = written.encode()
    return struct.pack("<Q", len(data)) + data


def text_entry(key: str, value: str) -> bytes:
    return text(key) + struct.pack("<I", TEXT) + text(value)


def u32_entry(key: str, value: int) -> bytes:
    return text(key) + struct.pack("<II", U32, value)


def tensor(name: str, shape: tuple[int, ...], kind: int, at: int) -> bytes:
    return text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, kind, at)


def head(*entries: bytes, tensors: bytes = b"", n_tensors: int = 0) -> bytes:
    return b"GGUF" + struct.pack("<IQQ", 3, n_tensors, len(entries)) + b"".join(entries) + tensors


def write_bytes(folder: Path, *entries: bytes, tensors: bytes = b"", n_tensors: int = 0, data: bytes = b"") -> Path:
    content = head(*entries, tensors=tensors, n_tensors=n_tensors)
    path = folder / "m.gguf"
    path.write_bytes(content + bytes(-len(content) % 32) + data)
    return path


def refusal(folder: Path, content: bytes, size: int = 0) -> str:
    """Why the file is refused; it is made `size` bytes long, with zeros that take no place."""
    path = folder / "m.gguf"
    path.write_bytes(content)
    if size > len(content):
        with path.open("r+b") as file:
            file.truncate(size)
    with pytest.raises(ConfigurationError) as caught:
        read_header(path)
    said = str(caught.value)
    start = f"The model file {path} cannot be loaded: "
    assert said.startswith(start)
    assert said.endswith(".")
    return said.removeprefix(start).removesuffix(".")


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
    assert read_header(path) == GgufHeader("llama", 2048, 0, can_infill, tensor_bytes=0, cell_bytes=0)


def test_a_header_tells_the_bytes_of_tensors_and_of_a_token_of_context(tmp_path: Path) -> None:
    path = write_bytes(
        tmp_path,
        text_entry("general.architecture", "llama"),
        u32_entry("llama.block_count", 3),
        u32_entry("llama.embedding_length", 64),
        u32_entry("llama.attention.head_count", 4),
        u32_entry("llama.attention.head_count_kv", 2),
        tensors=tensor("a", (32, 2), 8, 0) + tensor("b", (2,), 0, 96),
        n_tensors=2,
        data=bytes(96 + 8),
    )
    # Keys and values of 16 numbers of two bytes, for each of two heads in three layers.
    assert read_header(path) == GgufHeader(
        "llama", None, 3, False, tensor_bytes=2 * 34 + 8, cell_bytes=3 * 2 * 2 * 16 * 2
    )


def test_heads_may_differ_between_layers(tmp_path: Path) -> None:
    heads = text("llama.attention.head_count_kv") + struct.pack("<IIQ3I", ARRAY, U32, 3, 1, 2, 4)
    path = write_bytes(
        tmp_path,
        text_entry("general.architecture", "llama"),
        u32_entry("llama.block_count", 3),
        u32_entry("llama.embedding_length", 64),
        u32_entry("llama.attention.head_count", 4),
        heads,
    )
    assert read_header(path).cell_bytes == (1 + 2 + 4) * 2 * 16 * 2


@pytest.mark.parametrize("length", [0, 3, 8, 20, 40, 120])
def test_a_file_that_breaks_off_is_refused(tmp_path: Path, length: int) -> None:
    path = write(tmp_path / "m.gguf", ["a", "b"])
    path.write_bytes(path.read_bytes()[:length])
    with pytest.raises(ConfigurationError, match=r"m\.gguf cannot be loaded: it (ends within|begins with)"):
        read_header(path)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"GGML" + b"\0" * 40, "it begins with b'GGML', not b'GGUF'"),
        (b"GGUF\x01\0\0\0" + b"\0" * 40, "its version is 1, not 2 or 3"),
        (b"GGUF\0\0\0\x03" + b"\0" * 40, "its version is 50331648, not 2 or 3"),
        (b"GGUF\x03\0\0\0" + b"\xff" * 40, "it claims 18446744073709551615 tensors, more than 65536"),
        (b"GGUF\x03\0\0\0" + b"\0" * 8 + b"\xff" * 8, "it claims 18446744073709551615 entries, more than 65536"),
    ],
)
def test_another_format_is_refused(tmp_path: Path, content: bytes, reason: str) -> None:
    assert refusal(tmp_path, content) == reason


def test_a_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="cannot be read: Is a directory"):
        read_header(tmp_path)


@pytest.mark.parametrize(
    ("entries", "reason"),
    [
        pytest.param((u32_entry("k", 1), u32_entry("k", 2)), "it has the entry k twice", id="twice"),
        pytest.param((u32_entry("", 1),), "the key of its entry 0 has 0 bytes", id="no key"),
        pytest.param((u32_entry("k" * 65536, 1),), "the key of its entry 0 has 65536 bytes", id="long key"),
        pytest.param(
            (text("k") + struct.pack("<I", 13),), "its entry k is of the type 13, which there is not", id="type"
        ),
        pytest.param(
            (text("k") + struct.pack("<IIQ", ARRAY, ARRAY, 1),),
            "its entry k is of the type 9, which there is not",
            id="nested",
        ),
        pytest.param((text("k") + struct.pack("<IQ", TEXT, 1 << 63),), "it ends within its header", id="text"),
        pytest.param(
            (text("k") + struct.pack("<IIQ", ARRAY, U32, 1 << 62),), "it ends within its header", id="numbers"
        ),
        pytest.param((text("k") + struct.pack("<IIQ", ARRAY, TEXT, 9),), "it ends within its header", id="texts"),
        pytest.param(
            (u32_entry("general.alignment", 0),), "its entry general.alignment is not a power of two", id="zero"
        ),
        pytest.param(
            (u32_entry("general.alignment", 48),), "its entry general.alignment is not a power of two", id="48"
        ),
        pytest.param(
            (text_entry("general.alignment", "32"),), "its entry general.alignment is not a power of two", id="text 32"
        ),
    ],
)
def test_unsound_entries_are_refused(tmp_path: Path, entries: tuple[bytes, ...], reason: str) -> None:
    assert refusal(tmp_path, head(*entries)) == reason


@pytest.mark.parametrize(
    ("tensors", "reason"),
    [
        pytest.param(
            [tensor("a", (8,), 0, 0), tensor("a", (8,), 0, 32)],
            "the name of its tensor 1 is that of another",
            id="twice",
        ),
        pytest.param(
            [tensor("a" * 64, (8,), 0, 0)], "the name of its tensor 0 has 64 bytes, more than 63", id="long name"
        ),
        pytest.param([tensor("a", (1,) * 5, 0, 0)], "its tensor a has 5 dimensions, more than 4", id="five dimensions"),
        pytest.param([tensor("a", (8, 0), 0, 0)], "its tensor a has 0 elements", id="nothing"),
        pytest.param(
            [tensor("a", (1 << 32, 1 << 32), 0, 0)], "its tensor a has 18446744073709551616 elements", id="overflow"
        ),
        pytest.param(
            [tensor("a", (8,), 4, 0)], "its tensor a is of the type 4, which llama.cpp does not read", id="type"
        ),
        pytest.param(
            [tensor("a", (48, 2), 8, 0)], "its tensor a has rows of 48 elements, not of whole blocks of 32", id="blocks"
        ),
        pytest.param(
            [tensor("a", (8,), 0, 0), tensor("b", (8,), 0, 16)],
            "its tensor b begins at 16, not at 32 where the one before it ends",
            id="overlap",
        ),
        pytest.param(
            [tensor("a", (8,), 0, 0), tensor("b", (8,), 0, 1 << 40)],
            "its tensor b begins at 1099511627776, not at 32 where the one before it ends",
            id="beyond",
        ),
        pytest.param([tensor("a", (9,), 0, 0)], "it has 96 bytes, but its tensors end at 100", id="one too long"),
    ],
)
def test_unsound_tensors_are_refused(tmp_path: Path, tensors: list[bytes], reason: str) -> None:
    content = head(tensors=b"".join(tensors), n_tensors=len(tensors))
    padded = content + bytes(-len(content) % 32)
    assert refusal(tmp_path, padded + bytes(32)) == reason


def test_a_name_that_is_no_text_stays_on_its_line(tmp_path: Path) -> None:
    said = refusal(tmp_path, head(text("a\n\x1b[31m\u202e" * 99) + struct.pack("<I", 99)))
    assert said.isprintable()
    assert len(said) < 1000


def test_what_is_read_and_kept_is_limited(tmp_path: Path) -> None:
    many_texts = text("k") + struct.pack("<IIQ", ARRAY, TEXT, MAX_TEXTS + 1)
    assert refusal(tmp_path, head(many_texts), size=1 << 30) == (
        f"its arrays have more than {MAX_TEXTS} texts, at the entry k"
    )
    long_text = text("k") + struct.pack("<IQ", TEXT, MAX_HEAD)
    assert refusal(tmp_path, head(long_text), size=1 << 30) == f"its header has more than {MAX_HEAD} bytes"
    long_array = text("k") + struct.pack("<IIQ", ARRAY, F32, MAX_HEAD)
    assert refusal(tmp_path, head(long_array), size=1 << 30) == f"its header has more than {MAX_HEAD} bytes"


def test_long_arrays_of_numbers_are_passed_over(tmp_path: Path) -> None:
    scores = text("scores") + struct.pack("<IIQ", ARRAY, F32, MAX_KEPT + 1) + bytes(4 * (MAX_KEPT + 1))
    path = write_bytes(tmp_path, scores, text_entry("general.architecture", "llama"))
    assert read_header(path).architecture == "llama"
