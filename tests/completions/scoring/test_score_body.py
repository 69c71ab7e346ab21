"""Which fields a score request has, and which of them go together."""

from typing import Any

import pytest

from afterword.completions.scoring.score_body import Labels, ScoreRequest, parse_score
from afterword.errors import InvalidRequest

CHOICES: dict[str, Any] = {"prompt": "a", "continuations": ["b", "c"]}
LABELS: dict[str, Any] = {"query": "q", "items": ["a", "b"], "label_token_ids": [1, 2]}


def parse(*, strict: bool = False, **fields: Any) -> ScoreRequest:
    return parse_score(fields, strict=strict)


@pytest.mark.parametrize(
    ("fields", "wanted"),
    [
        (CHOICES, (("a", "b"), ("a", "c"))),
        ({"prompt": [1, 2], "continuations": [[3], [4, 5]]}, (((1, 2), (3,)), ((1, 2), (4, 5)))),
        ({"prompt": "a", "continuations": "b"}, (("a", "b"),)),
        ({"prompt": "a", "continuations": [3, 4]}, (("a", (3, 4)),)),
        ({"pairs": [["a", "b"], [[1], "c"], ["", [2]]]}, (("a", "b"), ((1,), "c"), ("", (2,)))),
        (CHOICES | {"pairs": None, "query": None}, (("a", "b"), ("a", "c"))),
        (LABELS, Labels("q", ("a", "b"), (1, 2), apply_softmax=False, item_first=False)),
        (
            LABELS | {"items": [[7]], "query": [8], "apply_softmax": True, "item_first": True},
            Labels((8,), ((7,),), (1, 2), apply_softmax=True, item_first=True),
        ),
    ],
)
def test_three_forms(fields: dict[str, Any], wanted: object) -> None:
    assert parse(**fields).wanted == wanted


@pytest.mark.parametrize(
    ("fields", "param", "said"),
    [
        ({}, "prompt", "none of them"),
        (CHOICES | LABELS, "query", "'prompt' and 'query'"),
        (CHOICES | {"pairs": [["a", "b"]]}, "pairs", "'prompt' and 'pairs'"),
        ({"prompt": "a"}, "continuations", "missing"),
        ({"continuations": "a"}, "prompt", "missing"),
        ({"query": "a", "items": "b"}, "label_token_ids", "missing"),
        ({"items": "b", "label_token_ids": [1]}, "query", "missing"),
        (CHOICES | {"apply_softmax": True}, "apply_softmax", "goes with 'query' and 'items'"),
        ({"pairs": []}, "pairs", "not be empty"),
        (LABELS | {"label_token_ids": []}, "label_token_ids", "not be empty"),
        ({"pairs": [["a", "b"], ["a"]]}, "pairs", "item 1"),
        ({"pairs": "a"}, "pairs", "array of pairs, not a string"),
        ({"pairs": [["a", 1]]}, "pairs", "not an integer"),
        (CHOICES | {"prompt": ["a", "b"]}, "prompt", "not several"),
        (CHOICES | {"stream": True}, "stream", "all at once"),
        (CHOICES | {"add_special_tokens": 1}, "add_special_tokens", "must be a boolean"),
        (LABELS | {"label_token_ids": [-1]}, "label_token_ids", "at least 0"),
        ({"text_1": "a", "text_2": "b"}, "text_1", "language models score"),
        (LABELS | {"documents": ["a"]}, "documents", "language models score"),
    ],
)
def test_what_does_not_go_together_is_refused_by_name(fields: dict[str, Any], param: str, said: str) -> None:
    with pytest.raises(InvalidRequest, match=said) as refused:
        parse(**fields)
    assert refused.value.param == param


def test_strict_servers_refuse_unknown_fields() -> None:
    assert parse(**CHOICES, other=1).model is None
    with pytest.raises(InvalidRequest, match="'other'"):
        parse(**CHOICES, other=1, strict=True)
