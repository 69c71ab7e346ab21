from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from gguf import GGUFWriter, TokenType
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.models.architectures import COMMON, TIME_MIX_7
from tests.models.shaped import add_entry
from tests.models.spm import Spm, write_spm, write_wpm
from tests.models.tiny import Tiny, write_tiny

from afterword.engine.llama.binding import LlamaModel
from afterword.engine.llama.vocabulary import Vocabulary
from afterword.tokens import SEPARATOR, InfillTokens, encode_within


def vocabulary_of(directory: Path, tiny: Tiny) -> Vocabulary:
    return Vocabulary(LlamaModel(write_tiny(directory, tiny), vocab_only=True))


def encode(vocabulary: Vocabulary, text: str) -> list[int]:
    return vocabulary.encode(text, add_bos=False, parse_special=True)


@pytest.fixture(scope="module")
def tiny_vocabulary(tmp_path_factory: pytest.TempPathFactory) -> Vocabulary:
    return vocabulary_of(tmp_path_factory.mktemp("tiny"), Tiny())


def test_facts_of_a_vocabulary_come_from_the_file(tiny_vocabulary: Vocabulary) -> None:
    tiny = tiny_vocabulary
    assert (tiny.n_vocab, tiny.eos_id, tiny.bos_id, tiny.add_bos) == (272, 270, 271, False)
    assert tiny.end_ids == {270}
    assert tiny.infill is None
    assert tiny.chat_template is None
    assert tiny.name == "gpt-2"


def test_separator_is_the_endoftext_token(tiny_vocabulary: Vocabulary) -> None:
    assert tiny_vocabulary.separator_id == 270


def test_separator_is_bos_where_no_endoftext_is(tmp_path: Path) -> None:
    assert vocabulary_of(tmp_path, Tiny(end="</s>")).separator_id == 271


def test_bos_goes_in_front_where_it_is_asked_for(tmp_path: Path) -> None:
    vocabulary = vocabulary_of(tmp_path, Tiny(add_bos=True))
    assert vocabulary.add_bos
    assert vocabulary.encode("the", add_bos=True, parse_special=True) == [271, 257]
    assert vocabulary.encode("the", add_bos=False, parse_special=True) == [257]


def test_infill_tokens_are_those_of_the_metadata(tmp_path: Path) -> None:
    assert vocabulary_of(tmp_path, Tiny(infill=True)).infill == InfillTokens(prefix=272, suffix=273, middle=274)


def test_control_text_is_a_token_only_where_it_is_parsed(tiny_vocabulary: Vocabulary) -> None:
    assert tiny_vocabulary.encode("<s>", add_bos=False, parse_special=True) == [271]
    assert tiny_vocabulary.encode("<s>", add_bos=False, parse_special=False) == [ord("<"), ord("s"), ord(">")]


RWKV_WORDS = ("th", "then", " the", "日本", "\n\n")


def rwkv_vocabulary(directory: Path) -> Vocabulary:
    """A vocabulary of RWKV's kind: tokens as they are written in Python, matched at their longest."""
    path = directory / "rwkv.gguf"
    tokens = ["<s>", *(f"\\x{byte:02x}" for byte in range(256)), *(word.replace("\n", "\\n") for word in RWKV_WORDS)]
    writer = GGUFWriter(path, "rwkv7")
    writer.add_tokenizer_model("rwkv")
    writer.add_token_list(tokens)
    writer.add_token_types([TokenType.CONTROL, *[TokenType.NORMAL] * (len(tokens) - 1)])
    for key, value in {**COMMON, "wkv.head_size": 64, **TIME_MIX_7}.items():
        add_entry(writer, f"rwkv7.{key}", value)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return Vocabulary(LlamaModel(path, vocab_only=True))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("the", ["th", "e"]),
        ("then", ["then"]),
        (" then", [" the", "n"]),
        ("日本語", ["日本", b"\xe8", b"\xaa", b"\x9e"]),
        ("\n\n\n", ["\n\n", "\n"]),
        ("\x00", [b"\x00"]),
    ],
)
def test_rwkv_vocabulary_takes_the_longest_token(tmp_path: Path, text: str, expected: list[str | bytes]) -> None:
    vocabulary = rwkv_vocabulary(tmp_path)
    tokens = vocabulary.encode(text, add_bos=False, parse_special=True)
    assert [vocabulary.piece(token) for token in tokens] == [
        part.encode() if isinstance(part, str) else part for part in expected
    ]


def test_control_tokens_are_told_from_text(tiny_vocabulary: Vocabulary) -> None:
    assert [i for i in range(272) if tiny_vocabulary.is_control(i)] == [270, 271]
    assert tiny_vocabulary.piece(270) == b"<|endoftext|>"


def test_a_byte_that_is_no_character_is_spelled_out(tiny_vocabulary: Vocabulary) -> None:
    assert tiny_vocabulary.piece(0xF0) == b"\xf0"
    assert tiny_vocabulary.spell(0xF0) == "bytes:\\xf0"
    assert tiny_vocabulary.spell(ord("A")) == "A"


@given(st.text())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_pieces_of_a_text_join_to_its_bytes(tiny_vocabulary: Vocabulary, text: str) -> None:
    ids = tiny_vocabulary.encode(text, add_bos=False, parse_special=False)
    assert b"".join(map(tiny_vocabulary.piece, ids)) == text.encode()


@pytest.mark.model
def test_facts_of_the_default_model(default_vocabulary: Vocabulary) -> None:
    assert {0, 2} <= default_vocabulary.end_ids
    assert default_vocabulary.separator_id == 0
    assert not default_vocabulary.add_bos
    assert default_vocabulary.infill is None
    assert default_vocabulary.n_vocab == 49152


@pytest.mark.model
def test_bytes_the_default_model_cannot_spell_are_left_out(default_vocabulary: Vocabulary) -> None:
    assert encode(default_vocabulary, "a\x04b") == [81, 82]


@pytest.mark.model
def test_part_of_a_character_is_spelled_as_bytes(default_vocabulary: Vocabulary) -> None:
    assert default_vocabulary.spell(10813) == "bytes:\\xf0\\x9f"


@pytest.mark.model
def test_control_text_of_the_default_model_is_parsed_on_demand(default_vocabulary: Vocabulary) -> None:
    assert encode(default_vocabulary, "<|im_end|>") == [2]
    plain = default_vocabulary.encode("<|im_end|>", add_bos=False, parse_special=False)
    assert 2 not in plain
    assert b"".join(map(default_vocabulary.piece, plain)) == b"<|im_end|>"


@pytest.mark.model
def test_a_text_of_a_million_letters_is_tokenized(default_vocabulary: Vocabulary) -> None:
    ids = encode(default_vocabulary, "a" * 1_000_000)
    assert sum(len(default_vocabulary.piece(token)) for token in ids) == 1_000_000


@pytest.mark.model
def test_threads_may_tokenize_at_once(default_vocabulary: Vocabulary) -> None:
    texts = [f"{number} green bottles hanging on the wall. " * 20 for number in range(64)]
    expected = [encode(default_vocabulary, text) for text in texts]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(lambda text: encode(default_vocabulary, text), texts)) == expected


@pytest.fixture(scope="module")
def spm_without_bytes(tmp_path_factory: pytest.TempPathFactory) -> Vocabulary:
    return spm_vocabulary(tmp_path_factory.mktemp("spm"), Spm(has_bytes=False))


CODE_LLAMA = {"▁<PRE>": TokenType.CONTROL, "▁<SUF>": TokenType.CONTROL, "▁<MID>": TokenType.CONTROL}


def spm_vocabulary(directory: Path, spm: Spm) -> Vocabulary:
    return Vocabulary(LlamaModel(write_spm(directory / "spm.gguf", spm), vocab_only=True))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x", ["x"]),
        (" x", ["▁x"]),
        ("thex", ["the", "x"]),
        ("<s>x", ["<s>", "▁x"]),
        ("é", ["<0xC3>", "<0xA9>"]),
        ("", []),
    ],
)
def test_token_02_a_text_within_another_gets_no_space_in_front(tmp_path: Path, text: str, expected: list[str]) -> None:
    spm = Spm()
    assert encode_within(spm_vocabulary(tmp_path, spm), text) == [spm.id(token) for token in expected]


@pytest.mark.parametrize("kind", [TokenType.CONTROL, TokenType.NORMAL])
def test_token_03_what_is_filled_in_ends_at_eot_also_in_older_files(tmp_path: Path, kind: TokenType) -> None:
    spm = Spm(more={**CODE_LLAMA, "▁<EOT>": kind})
    vocabulary = spm_vocabulary(tmp_path, spm)
    eot = spm.id("▁<EOT>")
    assert vocabulary.infill == InfillTokens(*(spm.id(token) for token in CODE_LLAMA))
    assert vocabulary.end_ids == {spm.id("</s>"), eot}
    assert vocabulary.is_control(eot)


def test_token_03_a_model_that_fills_nothing_in_keeps_its_tokens(tmp_path: Path) -> None:
    spm = Spm(more={"▁<EOT>": TokenType.NORMAL})
    vocabulary = spm_vocabulary(tmp_path, spm)
    assert vocabulary.end_ids == {spm.id("</s>")}
    assert not vocabulary.is_control(spm.id("▁<EOT>"))


def test_native_10_a_file_that_names_no_bos_and_eos_has_none(tmp_path: Path) -> None:
    vocabulary = vocabulary_of(tmp_path, Tiny(end="<end>", silent=True))
    assert (vocabulary.bos_id, vocabulary.eos_id, vocabulary.add_bos) == (None, None, False)
    assert vocabulary.end_ids == frozenset()
    assert vocabulary.separator_id == 0
    assert not vocabulary.is_control(11)


def test_native_10_what_is_an_end_by_its_name_stays_one(tmp_path: Path) -> None:
    assert vocabulary_of(tmp_path, Tiny(silent=True)).end_ids == {270}


def test_native_10_control_tokens_in_the_usual_places_need_no_key(tmp_path: Path) -> None:
    spm = Spm()
    vocabulary = spm_vocabulary(tmp_path, spm)
    assert (vocabulary.bos_id, vocabulary.eos_id) == (spm.id("<s>"), spm.id("</s>"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("def the", ["▁def", "▁the"]),
        ("cé日日f", ["▁", "c", "<unk>", "▁", "f"]),
        ("日", ["<unk>"]),
        ("<s>d", ["<s>", "▁d"]),
        ("<s>日<|mine|>d", ["<s>", "<unk>", "<|mine|>", "▁d"]),
        (SEPARATOR, ["<unk>", *"endoftext", "<unk>"]),
        ("", []),
    ],
)
def test_native_01_what_a_vocabulary_without_bytes_cannot_spell_is_its_unknown_token(
    tmp_path: Path, text: str, expected: list[str]
) -> None:
    spm = Spm(has_bytes=False, more={"<|mine|>": TokenType.USER_DEFINED})
    found = encode(spm_vocabulary(tmp_path, spm), text)
    assert [list(spm.tokens)[token] for token in found if token != spm.id("▁")] == [
        token for token in expected if token != "▁"
    ]


@pytest.mark.parametrize("text", ["<s>d", "日<|mine|>"])
def test_native_01_control_tokens_that_are_not_read_are_unknown_text(tmp_path: Path, text: str) -> None:
    spm = Spm(has_bytes=False, more={"<|mine|>": TokenType.USER_DEFINED})
    found = spm_vocabulary(tmp_path, spm).encode(text, add_bos=False, parse_special=False)
    assert spm.id("<unk>") in found
    assert spm.id("<s>") not in found
    assert (spm.id("<|mine|>") in found) == ("mine" in text)


@given(st.text())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_native_01_no_text_ends_the_process(spm_without_bytes: Vocabulary, text: str) -> None:
    assert all(0 <= token < spm_without_bytes.n_vocab for token in encode(spm_without_bytes, text))


def test_native_06_what_has_no_token_at_all_is_left_out(tmp_path: Path) -> None:
    vocabulary = Vocabulary(LlamaModel(write_wpm(tmp_path / "wpm.gguf", ["▁the", "▁cat"]), vocab_only=True))
    assert encode(vocabulary, "the café cat") == [0, 1]
