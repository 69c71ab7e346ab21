"""Vocabularies and texts from llama.cpp's own sources: ids as their makers' tokenizers give them, and offsets.

The texts have what tokenizers differ in: spaces, line ends, digits, apostrophes, emoji, scripts without spaces.
"""

from functools import cache

import pytest
from tests.models.downloads import vocabularies

from afterword.completions.completion import Prompt
from afterword.completions.prompts import PromptRules, read_prompt
from afterword.engine.llama.binding import LlamaModel
from afterword.engine.llama.vocabulary import Vocabulary

pytestmark = pytest.mark.models

BETWEEN = "\n__ggml_vocab_test__\n"

WITH_IDS = {
    "bert-bge": "WPM",
    "command-r": "BPE",
    "deepseek-coder": "BPE",
    "deepseek-llm": "BPE",
    "falcon": "BPE",
    "gemma-4": "BPE of characters",
    "gpt-2": "BPE",
    "llama-bpe": "BPE",
    "llama-spm": "SPM",
    "mpt": "BPE",
    "phi-3": "SPM",
    "qwen2": "BPE",
    "qwen35": "BPE",
    "refact": "BPE",
    "starcoder": "BPE",
}
"""Vocabularies that come with texts and their ids, and of which kind they are."""

WITHOUT_IDS = {"aquila": "BPE", "baichuan": "SPM", "gpt-neox": "BPE", "nomic-bert-moe": "UGM"}

NORMALISING = ("bert-bge", "nomic-bert-moe")
"""Those whose tokens do not spell the text as it was: the one is in lower case, both lose spaces."""

RULES = PromptRules(add_special_tokens=True, skip_special_tokens=False, keep_last=None, with_offsets=True)


@cache
def vocabulary(name: str) -> Vocabulary:
    return Vocabulary(LlamaModel(vocabularies() / f"ggml-vocab-{name}.gguf", vocab_only=True))


def texts(name: str) -> list[str]:
    raw = (vocabularies() / f"ggml-vocab-{name if name in WITH_IDS else 'llama-spm'}.gguf.inp").read_bytes().decode()
    return raw.removesuffix(BETWEEN).split(BETWEEN)


def read(name: str, text: str) -> Prompt:
    return read_prompt(text, vocabulary(name), RULES)[0]


@pytest.mark.parametrize("name", WITH_IDS)
def test_ids_are_those_of_the_tokenizers_makers(name: str) -> None:
    lines = (vocabularies() / f"ggml-vocab-{name}.gguf.out").read_text(encoding="utf-8").splitlines()
    expected = [[int(number) for number in line.split()] for line in lines]
    assert len(expected) == len(texts(name)) > 40
    for parse_special in (False, True):
        found = [vocabulary(name).encode(text, add_bos=False, parse_special=parse_special) for text in texts(name)]
        assert found == expected


@pytest.mark.parametrize("name", [*WITH_IDS, *WITHOUT_IDS])
def test_offsets_go_through_the_text(name: str) -> None:
    for text in texts(name):
        prompt = read(name, text)
        assert prompt.text == text
        assert len(prompt.offsets) == len(prompt.tokens)
        assert list(prompt.offsets) == sorted(prompt.offsets)
        assert all(0 <= offset <= len(text) for offset in prompt.offsets)


@pytest.mark.parametrize("name", [name for name in (*WITH_IDS, *WITHOUT_IDS) if name not in NORMALISING])
def test_tokens_spell_the_text_from_their_offsets_on(name: str) -> None:
    for text in filter(None, texts(name)):
        prompt = read(name, text)
        n_bos = 1 if vocabulary(name).add_bos else 0
        pieces = [vocabulary(name).piece(token) for token in prompt.tokens[n_bos:]]
        # SPM puts a space in front, which was not sent.
        assert b"".join(pieces).decode() in (text, f" {text}")
        assert prompt.offsets[: n_bos + 1] in ((0,), (0, 0))
        for number, offset in list(enumerate(prompt.offsets[n_bos:]))[1:]:
            # A token that begins within a character has the offset of the character.
            if is_whole(b"".join(pieces[:number])):
                assert text[offset:] == b"".join(pieces[number:]).decode()


def is_whole(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True
