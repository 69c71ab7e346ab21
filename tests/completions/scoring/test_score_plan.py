"""Which prompts score what is wanted, where context and continuation meet, and what counts as used."""

from dataclasses import replace
from typing import Any

import pytest
from tests.completions.scripted import BOS, CAPABILITIES, AsciiTokenizer, ScriptedEngine, letters

from afterword.completions.scoring.score_body import parse_score
from afterword.completions.scoring.score_plan import ScorePlan, plan_score
from afterword.config.tree import ServerConfig
from afterword.errors import ContextExceeded, InvalidRequest
from afterword.registry import ServedModel
from afterword.tokens import ByteTokenizer, Tokenizer


def plan(*lacks: str, tokenizer: Tokenizer | None = None, **fields: Any) -> ScorePlan:
    can = replace(CAPABILITIES, lacks=dict.fromkeys(lacks, "nobody can."))
    engine = ScriptedEngine(tokenizer=tokenizer or ByteTokenizer(), capabilities=can)
    server = ServerConfig(max_candidates=8, max_listed=1000)
    return plan_score(parse_score(fields, strict=False), ServedModel("small", engine, 0), server)


def prompts(made: ScorePlan) -> list[tuple[bytes, int, tuple[int, ...]]]:
    """Of each prompt: its text, the first row that is wanted, the named tokens."""
    return [(bytes(one.prompt), one.score_from, one.named_ids) for one in made.completion.generations]


def test_continuations_that_differ_in_their_last_token_alone_are_one_prompt() -> None:
    made = plan(prompt="ab", continuations=["c", "d", "xy", "xz", "c"])
    assert prompts(made) == [(b"abc", 1, (99, 100)), (b"abxy", 1, (121, 122))]
    assert [(place.prompt_index, place.columns) for place in made.places] == [
        (0, (0,)),
        (0, (1,)),
        (1, (0,)),
        (1, (1,)),
        (0, (0,)),
    ]


def test_engines_that_score_no_named_tokens_get_a_prompt_for_each() -> None:
    made = plan("logprob_token_ids", prompt="ab", continuations=["c", "d"])
    assert prompts(made) == [(b"abc", 1, ()), (b"abd", 1, ())]
    made = plan("logprob_token_ids", query="ab", items=["c", "d"], label_token_ids=[1, 2])
    assert prompts(made) == [(b"abc\x01", 2, ()), (b"abc\x02", 2, ()), (b"abd\x01", 2, ()), (b"abd\x02", 2, ())]
    assert made.completion.counted == (3, 0, 1, 0)


@pytest.mark.parametrize(("item_first", "texts"), [(False, (b"qa", b"qbc")), (True, (b"aq", b"bcq"))])
def test_labels_are_scored_after_query_and_item(item_first: bool, texts: tuple[bytes, ...]) -> None:
    made = plan(query="q", items=["a", "bc"], label_token_ids=[5, 3, 5], item_first=item_first)
    assert prompts(made) == [(text + b"\x05", len(text) - 1, (5, 3)) for text in texts]
    assert [place.columns for place in made.places] == [(0, 1, 0)] * 2
    assert made.completion.counted == ((2, 3) if item_first else (2, 2))


def test_a_context_counts_once_and_each_continuation_whole() -> None:
    made = plan(pairs=[["abcd", "x"], ["abcd", "xy"], ["abcd", "y"], ["b", "xy"]])
    assert sum(made.completion.counted or ()) == 4 + 1 + 2 + 1 + 1 + 2
    assert made.completion.most_tokens == 11


@pytest.mark.parametrize(
    ("context", "continuation", "text", "n_context"),
    [
        ("ab", "cd", b"abcd", 2),
        ("ab ", "cd", b"ab cd", 2),
        ("ab \n", "cd", b"ab \ncd", 2),
        ("ab ", [99], b"ab c", 3),
        ([97, 32], "c", b"a c", 2),
        ([97], [98], b"ab", 1),
    ],
)
def test_space_between_two_texts_is_the_continuations(
    context: Any, continuation: Any, text: bytes, n_context: int
) -> None:
    [place] = plan(pairs=[[context, continuation]]).places
    assert (bytes((*place.text.head, *place.text.lasts)), place.text.n_context) == (text, n_context)


def test_an_empty_context_is_the_separator_or_bos() -> None:
    [place] = plan(pairs=[["", "a"]]).places
    assert (place.text.head, place.text.n_context) == ((ByteTokenizer.END,), 1)
    [place] = plan(pairs=[["", "ab"]], tokenizer=AsciiTokenizer()).places
    assert (place.text.head, place.text.n_context, list(place.text.lasts)) == ((BOS, *letters("a")), 1, letters("b"))


def test_add_special_tokens_is_about_bos() -> None:
    [place] = plan(pairs=[["a", "b"]], tokenizer=AsciiTokenizer(), add_special_tokens=False).places
    assert (*place.text.head, *place.text.lasts) == tuple(letters("ab"))


@pytest.mark.parametrize(
    ("fields", "param", "said"),
    [
        ({"pairs": [["a", ""]]}, "pairs", "no token of its own"),
        ({"prompt": "a", "continuations": [[]]}, "continuations", "no token of its own"),
        ({"prompt": [300], "continuations": "a"}, "continuations", "300"),
        ({"query": "a", "items": "b", "label_token_ids": [258]}, "label_token_ids", "258"),
        ({"prompt": "a", "continuations": ["b"] * 9}, "continuations", "at most 8"),
        ({"query": "a", "items": ["b"] * 5, "label_token_ids": list(range(201))}, None, "1005 log-probabilities"),
    ],
)
def test_what_cannot_be_scored_is_refused(fields: dict[str, Any], param: str | None, said: str) -> None:
    with pytest.raises(InvalidRequest, match=said) as refused:
        plan(**fields)
    assert refused.value.param == param


def test_more_prompts_than_there_may_be_are_refused() -> None:
    with pytest.raises(InvalidRequest, match="more than 8 prompts"):
        plan("logprob_token_ids", query="a", items=["b", "c", "d"], label_token_ids=[1, 2, 3])


def test_a_text_longer_than_the_context_is_refused() -> None:
    plan(pairs=[["a" * 60, "bbbb"]])
    with pytest.raises(ContextExceeded):
        plan(pairs=[["a" * 60, "bbbbb"]])


def test_models_without_log_probabilities_of_prompts_are_named() -> None:
    with pytest.raises(InvalidRequest, match="The model 'small' does not support scores: nobody can") as refused:
        plan("prompt_logprobs", pairs=[["a", "b"]])
    assert refused.value.param == "model"
