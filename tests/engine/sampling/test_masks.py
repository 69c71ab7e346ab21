"""What a grammar allows is drawn, and nothing else: over byte tokens, whatever a model would rather say."""

import json
import re
from typing import Any

import jsonschema
import numpy as np
import pytest

from afterword.completions.parse import parse_body
from afterword.engine.grammars.grammar_compiler import GrammarFailed, compiled
from afterword.engine.sampling.bias import EveryTokenBanned
from afterword.engine.sampling.masks import Masks, ends_of
from afterword.engine.sampling.random_stream import RandomStream
from afterword.engine.sampling.sampler import Sampler, Workspace
from afterword.errors import InvalidRequest
from afterword.fields.grammars import Grammar
from afterword.tokens import ByteTokenizer

PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 4},
        "age": {"type": "integer", "minimum": 0, "maximum": 120},
    },
    "required": ["name", "age"],
    "additionalProperties": False,
}


def deep(times: int) -> Any:
    """A schema in a schema, so many times."""
    schema: Any = 1
    for _ in range(times):
        schema = {"items": schema}
    return schema


def grammar_of(**fields: Any) -> Grammar:
    [grammar] = parse_body(fields, strict=False).constraints.given.values()
    return grammar


def written(grammar: Grammar, seed: int, *, n: int = 400, **fields: Any) -> tuple[str, bool]:
    """A text drawn from flat logits under a grammar, and whether it has ended."""
    tokenizer = ByteTokenizer()
    masks = Masks(tokenizer)
    asked = parse_body(fields, strict=False)
    [mask] = masks.open(compiled(grammar), 1).result()
    sampler = Sampler(
        asked.sampling,
        Workspace(tokenizer.n_vocab),
        RandomStream(seed, 0, 0),
        end_ids=ends_of(tokenizer),
        min_tokens=asked.min_tokens,
        mask=mask,
    )
    row = np.random.default_rng(seed).standard_normal(tokenizer.n_vocab).astype(np.float32)
    text = b""
    try:
        for position in range(n):
            token = sampler.sample(row, position)
            if token == ByteTokenizer.END:
                return text.decode(), True
            text += tokenizer.piece(token)
            sampler.accept(token)
    finally:
        masks.close()
    return text.decode(errors="replace"), False


@pytest.mark.parametrize("seed", range(5))
def test_json_is_what_the_schema_allows(seed: int) -> None:
    text, ended = written(grammar_of(json_schema=PERSON), seed)
    assert ended
    jsonschema.validate(json.loads(text), PERSON)


@pytest.mark.parametrize("pattern", [r"[0-9]{3}-[a-f]+?x", r"(ab|cd){2}", r"\\d+ \"q\"", "[äöü]{1,3}"])
def test_the_whole_text_matches_a_regular_expression(pattern: str) -> None:
    for seed in range(5):
        text, ended = written(grammar_of(regex=pattern), seed)
        assert not ended or re.fullmatch(pattern, text)


def test_one_of_some_texts() -> None:
    choices = ["yes", 'a "quoted" one', "line\nend", "\\", "yes and no", "ß☺"]
    drawn = {written(grammar_of(guided_choice=choices), seed) for seed in range(30)}
    assert {text for text, _ in drawn} <= set(choices)
    assert len(drawn) > 3
    assert all(ended for _, ended in drawn)


@pytest.mark.parametrize(
    "text",
    [
        'root ::= "x" ("," root)? | [0-9]+',
        'start: "x" ("," start)? | /[0-9]+/',
        'root ::= item+\nitem ::= "- " [a-z]{1,3} "\\n"\n',
    ],
)
def test_grammars_of_both_kinds(text: str) -> None:
    for seed in range(5):
        found, ended = written(grammar_of(grammar=text), seed, n=60)
        pattern = r"(x,)*(x|[0-9]+)" if '","' in text else r"(- [a-z]{1,3}\n)+"
        assert not ended or re.fullmatch(pattern, found)


@pytest.mark.parametrize(
    "fields",
    [
        {"guided_json": json.dumps(PERSON)},
        {"json_schema": PERSON},
        {"structured_outputs": {"json": PERSON, "regex": None}},
        {"response_format": {"type": "json_schema", "json_schema": {"name": "person", "schema": PERSON}}},
        {"response_format": {"type": "json_schema", "schema": PERSON}},
        {"response_format": {"type": "json_object", "schema": PERSON}},
    ],
)
def test_a_schema_is_one_thing_however_it_is_said(fields: dict[str, Any]) -> None:
    assert grammar_of(**fields) == grammar_of(json_schema=PERSON)


@pytest.mark.parametrize(
    "fields",
    [{"response_format": {"type": "json_object"}}, {"guided_json_object": True}, {"json_schema": '{"type":"object"}'}],
)
def test_any_object(fields: dict[str, Any]) -> None:
    assert grammar_of(**fields) == Grammar("json_schema", '{"type": "object"}')


@pytest.mark.parametrize(
    ("fields", "same"),
    [
        ({"guided_regex": "a+"}, {"regex": "a+"}),
        ({"structured_outputs": {"regex": "a+"}}, {"regex_pattern": "a+"}),
        ({"grammar_string": 'root ::= "a"'}, {"ebnf": 'root ::= "a"'}),
        ({"guided_grammar": 'start: "a"'}, {"structured_outputs": {"grammar": 'start: "a"'}}),
        ({"structured_outputs": {"choice": ["a"]}}, {"guided_choice": ["a"]}),
    ],
)
def test_other_servers_words_mean_the_same(fields: dict[str, Any], same: dict[str, Any]) -> None:
    assert grammar_of(**fields) == grammar_of(**same)


@pytest.mark.parametrize(
    "fields",
    [
        {"response_format": {"type": "text"}},
        {"response_format": {}},
        {"json_schema": {}},
        {"json_schema": ""},
        {"guided_choice": []},
        {"regex": ""},
        {"grammar": " "},
        {"guided_json_object": False},
        {"structured_outputs": {}},
        {"structured_outputs": {"json": None, "json_object": False}},
        {"guided_json": None},
    ],
)
def test_what_is_empty_constrains_nothing(fields: dict[str, Any]) -> None:
    assert parse_body(fields, strict=False).constraints.given == {}


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"regex": 5}, "must be a regular expression in a string, not an integer"),
        ({"guided_choice": ["a", 1]}, "must be an array of strings"),
        ({"json_schema": "{"}, "is no JSON"),
        ({"json_schema": [1]}, "must be a JSON schema"),
        ({"json_schema": '{"items":' * 5000 + "1" + "}" * 5000}, "schemas in schemas beyond what can be read"),
        ({"json_schema": deep(5000)}, "schemas in schemas beyond what can be read"),
        ({"json_schema": False}, "must be a JSON schema"),
        ({"response_format": {"type": "xml"}}, "has the type 'xml'"),
        ({"response_format": {"type": "json_schema"}}, "has no schema"),
        ({"structured_outputs": {"json": PERSON, "regex": "a"}}, "must have one of"),
        ({"structured_outputs": {"structural_tag": "x"}}, "must have one of"),
        ({"grammar": "x" * 200_001}, "at most 200000 characters, not 200001"),
    ],
)
def test_other_shapes_are_refused(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidRequest, match=words) as refused:
        parse_body(fields, strict=False)
    assert refused.value.param == next(iter(fields))


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"regex": "("}, r"at 1\(8\).*unclosed group"),
        ({"grammar": "start: foo"}, 'at 1\\(8\\): unknown name: "foo"'),
        ({"grammar": "root ::= ("}, "at line 1"),
        ({"json_schema": {"type": "string", "minLength": 5, "maxLength": 2}}, "minLength .5. is greater"),
        ({"json_schema": {"type": "nonsense"}}, "nonsense"),
        ({"grammar": '{"grammars": 5}'}, "cannot be read"),
    ],
)
def test_what_nobody_can_satisfy_is_told_with_its_place(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(GrammarFailed, match=re.compile(words, re.DOTALL)):
        compiled(grammar_of(**fields))


def test_no_end_before_the_grammar_and_min_tokens_allow_one() -> None:
    for seed in range(5):
        assert len(written(grammar_of(regex="a*"), seed, min_tokens=7)[0]) >= 7
    assert written(grammar_of(regex="a{3}"), 1, min_tokens=50) == ("aaa", True), "nothing else may come"


def test_a_bias_against_all_that_the_grammar_allows_is_the_client_s_mistake() -> None:
    with pytest.raises(EveryTokenBanned, match=r"^grammar and logit_bias together ban every token\.$") as refused:
        written(grammar_of(regex="a{3}"), 1, logit_bias={"97": -100})
    assert refused.value.param == "grammar"


def test_samplers_work_on_what_the_grammar_leaves() -> None:
    text, ended = written(grammar_of(regex="[ab]{40}"), 3, top_k=1)
    assert ended
    assert len(set(text)) == 1
    assert written(grammar_of(json_schema=PERSON), 3, typical_p=0.5, xtc_probability=0.5, dry_multiplier=2)[1]


def test_candidates_go_their_own_ways() -> None:
    masks = Masks(ByteTokenizer())
    first, second = masks.open(compiled(grammar_of(guided_choice=["ax", "by"])), 2).result()
    first.accept(ord("a"))
    second.accept(ord("b"))
    scores = np.zeros((2, 258), dtype=np.float32)
    first.apply(scores[0])
    second.apply(scores[1])
    assert [np.flatnonzero(np.isfinite(row)).tolist() for row in scores] == [[ord("x")], [ord("y")]]
    assert not first.ended
    first.accept(ord("x"))
    assert first.ended
    masks.close()


def test_what_takes_too_much_fails_its_request_alone() -> None:
    masks = Masks(ByteTokenizer())
    [broken] = masks.open(compiled(grammar_of(regex="ab")), 1).result()
    broken.accept(ord("z"))
    with pytest.raises(GrammarFailed, match="cannot be followed any further"):
        broken.apply(np.zeros(258, dtype=np.float32))
    [other] = masks.open(compiled(grammar_of(regex="ab")), 1).result()
    other.apply(np.zeros(258, dtype=np.float32))
    masks.close()
