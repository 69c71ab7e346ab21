import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.completions.scripted import BOS, EOS, AsciiTokenizer, letters

from afterword.completions.prompts import PromptRules, read_prompt
from afterword.fields.shapes import PromptItem
from afterword.tokens import ByteTokenizer, Tokenizer

END, CONTROL = ByteTokenizer.END, ByteTokenizer.CONTROL


def rules(*, skip_special_tokens: bool = True) -> PromptRules:
    return PromptRules(
        add_special_tokens=True, skip_special_tokens=skip_special_tokens, keep_last=None, with_offsets=True
    )


@pytest.mark.parametrize(
    ("text", "offsets"),
    [
        ("abc", (0, 1, 2)),
        ("é!", (0, 0, 1)),
        ("a☃b", (0, 1, 1, 1, 2)),
        ("😀x", (0, 0, 0, 0, 1)),
        ("<|endoftext|>x", (0, 13)),
        ("a<|control|>é", (0, 1, 12, 12)),
    ],
)
def test_offsets_count_code_points_of_the_text_as_sent(text: str, offsets: tuple[int, ...]) -> None:
    prompt, pending = read_prompt(text, ByteTokenizer(), rules())
    assert (prompt.text, prompt.offsets, pending) == (text, offsets, b"")


def test_bos_takes_no_text() -> None:
    prompt, _ = read_prompt("ab", AsciiTokenizer(), rules())
    assert (prompt.tokens, prompt.offsets) == ((BOS, *letters("ab")), (0, 0, 1))


def test_bos_in_the_text_takes_its_own() -> None:
    prompt, _ = read_prompt("<s>a", AsciiTokenizer(), rules())
    assert (prompt.tokens, prompt.offsets) == ((BOS, BOS, *letters("a")), (0, 0, 3))


def test_a_space_that_the_vocabulary_adds_is_not_counted() -> None:
    prompt, _ = read_prompt("ab", AsciiTokenizer(lead=" "), rules())
    assert (prompt.tokens, prompt.offsets) == ((BOS, *letters(" ab")), (0, 0, 0, 1))


def test_text_that_the_vocabulary_loses_is_passed_over() -> None:
    prompt, _ = read_prompt("a☃b", AsciiTokenizer(), rules())
    assert (prompt.tokens, prompt.offsets) == ((BOS, *letters("ab")), (0, 0, 2))


@pytest.mark.parametrize(
    ("ids", "text", "offsets", "pending"),
    [
        ((97, 98), "ab", (0, 1), b""),
        ((0xC3, 0xA9, 98), "éb", (0, 0, 1), b""),
        ((97, 0xE2, 0x98), "a", (0, 1, 1), b"\xe2\x98"),
        ((0xFF, 97), "\ufffda", (0, 1), b""),
        ((97, CONTROL, 98), "ab", (0, 1, 1), b""),
        ((END,), "", (0,), b""),
        ((0xC3, CONTROL), "", (0, 0), b"\xc3"),
    ],
    ids=["ascii", "split", "incomplete", "invalid", "control", "control-alone", "incomplete-then-control"],
)
def test_a_token_array_is_echoed_decoded(
    ids: tuple[int, ...], text: str, offsets: tuple[int, ...], pending: bytes
) -> None:
    prompt, given_pending = read_prompt(ids, ByteTokenizer(), rules())
    assert (prompt.tokens, prompt.text, prompt.offsets, given_pending) == (ids, text, offsets, pending)


def test_control_tokens_of_an_array_are_spelled_only_if_they_are_shown() -> None:
    prompt, _ = read_prompt((97, CONTROL, 98), ByteTokenizer(), rules(skip_special_tokens=False))
    assert (prompt.text, prompt.offsets) == ("a<|control|>b", (0, 1, 12))


TEXTS = st.lists(st.one_of(st.text(max_size=4), st.sampled_from(["<s>", "</s>", "<|control|>", " "])), max_size=5)
ITEMS = st.one_of(TEXTS.map("".join), st.lists(st.integers(0, 99), max_size=12).map(tuple))
VOCABULARIES = st.sampled_from([ByteTokenizer(), AsciiTokenizer(), AsciiTokenizer(lead=" ")])


@given(ITEMS, VOCABULARIES)
def test_there_is_an_offset_per_token_and_they_rise_within_the_text(item: PromptItem, tokenizer: Tokenizer) -> None:
    prompt, _ = read_prompt(item, tokenizer, rules())
    assert len(prompt.offsets) == len(prompt.tokens) > 0
    assert list(prompt.offsets) == sorted(prompt.offsets)
    assert prompt.offsets[-1] <= len(prompt.text)
    assert isinstance(item, tuple) or prompt.text == item


@given(st.lists(st.integers(0, 255), max_size=12).map(tuple))
def test_text_and_pending_bytes_are_what_a_decoder_makes_of_the_array(ids: tuple[int, ...]) -> None:
    prompt, pending = read_prompt(ids, ByteTokenizer(), rules())
    whole = bytes(ids)
    assert whole.endswith(pending)
    assert prompt.text == whole[: len(whole) - len(pending)].decode("utf-8", "replace")


def test_end_ids_are_ordinary_in_a_prompt() -> None:
    assert read_prompt((EOS,), AsciiTokenizer(), rules())[0].tokens == (EOS,)
