import pytest
from tests.completions.scripted import BOS, MID, PRE, SUF, AsciiTokenizer, completion, letters, served
from typing_extensions import override

from afterword.errors import ContextExceeded, InvalidRequest
from afterword.tokens import ByteTokenizer, InfillTokens

MARKS = InfillTokens(prefix=PRE, suffix=SUF, middle=MID)
TEMPLATE = "<PRE> {prefix} <SUF>{suffix} <MID>"


def marked() -> AsciiTokenizer:
    return AsciiTokenizer(infill=MARKS)


def test_the_models_own_marks_go_prefix_suffix_middle_after_bos() -> None:
    result = completion(served(marked()), prompt="ab", suffix="cd")
    assert result.generations[0].prompt == (BOS, PRE, *letters("ab"), SUF, *letters("cd"), MID)


def test_add_special_tokens_false_leaves_bos_out() -> None:
    result = completion(served(marked()), prompt="a", suffix="b", add_special_tokens=False)
    assert result.generations[0].prompt == (PRE, *letters("a"), SUF, *letters("b"), MID)


def test_an_empty_suffix_is_none() -> None:
    assert completion(served(marked()), prompt="a", suffix="").generations[0].prompt == (BOS, *letters("a"))


def test_an_empty_prefix_stays_empty() -> None:
    assert completion(served(marked()), suffix="b").generations[0].prompt == (BOS, PRE, SUF, *letters("b"), MID)


def test_a_token_array_is_the_prefix() -> None:
    result = completion(served(marked()), prompt=[[70, 71], [72]], suffix="b")
    assert [g.prompt for g in result.generations] == [
        (BOS, PRE, 70, 71, SUF, *letters("b"), MID),
        (BOS, PRE, 72, SUF, *letters("b"), MID),
    ]


def test_the_echo_is_the_prefix_alone() -> None:
    result = completion(served(marked()), prompt="ab", suffix="cdef", echo=True)
    assert (result.prompts[0].text, result.generations[0].text_offset) == ("ab", 2)


def test_no_field_that_cuts_is_named_where_there_is_a_suffix() -> None:
    with pytest.raises(ContextExceeded, match=r"too many: .* Shorten the prompt or lower max_tokens\.$"):
        completion(served(marked()), prompt="a" * 5000, suffix="b")


def test_a_template_of_the_configuration_goes_first_and_is_encoded_whole() -> None:
    result = completion(served(marked(), infill_template=TEMPLATE), prompt="a{suffix}", suffix="b{prefix}")
    assert result.generations[0].prompt == (
        BOS,
        *(PRE, *letters(" a{suffix} ")),
        *(SUF, *letters("b{prefix} ")),
        MID,
    )


def test_a_template_may_put_the_suffix_first() -> None:
    result = completion(served(AsciiTokenizer(), infill_template="<SUF>{suffix}<PRE>{prefix}"), prompt="a", suffix="b")
    assert result.generations[0].prompt == (BOS, SUF, *letters("b"), PRE, *letters("a"))


def test_a_template_takes_a_token_array_as_it_is() -> None:
    result = completion(served(AsciiTokenizer(), infill_template=TEMPLATE), prompt=[70], suffix="b")
    assert result.generations[0].prompt == (BOS, PRE, *letters(" "), 70, *letters(" "), SUF, *letters("b "), MID)


def test_a_model_without_marks_refuses_by_name() -> None:
    with pytest.raises(InvalidRequest, match="'small' cannot fill in the middle") as caught:
        completion(served(ByteTokenizer()), prompt="a", suffix="b")
    assert (caught.value.param, caught.value.code) == ("suffix", "unsupported_parameter")


@pytest.mark.parametrize(
    "fields",
    [{"echo": True, "logprobs": 0}, {"prompt_logprobs": 0}, {"truncate_prompt_tokens": 4}],
    ids=["echo-logprobs", "prompt-logprobs", "truncate"],
)
def test_what_would_list_or_cut_the_reordered_prompt_is_refused(fields: dict[str, object]) -> None:
    with pytest.raises(InvalidRequest) as caught:
        completion(served(marked()), prompt="a", suffix="b", **fields)
    assert caught.value.param == "suffix"


def test_ids_of_the_prefix_are_checked() -> None:
    with pytest.raises(InvalidRequest) as caught:
        completion(served(marked()), prompt=[100], suffix="b")
    assert caught.value.param == "prompt"


class SpacedBytes(ByteTokenizer):
    """Bytes, and a space in front of every text."""

    def __init__(self) -> None:
        super().__init__()
        self.infill = InfillTokens(prefix=self.CONTROL, suffix=self.CONTROL, middle=self.CONTROL)

    @override
    def encode(self, text: str, *, add_bos: bool, parse_special: bool) -> list[int]:
        return super().encode(f" {text}", add_bos=add_bos, parse_special=parse_special)


def test_token_02_only_the_prefix_begins_with_the_space_of_the_vocabulary() -> None:
    result = completion(served(SpacedBytes()), prompt="ab", suffix="cd")
    mark = ByteTokenizer.CONTROL
    assert result.generations[0].prompt == (mark, *b" ab", mark, *b"cd", mark)
