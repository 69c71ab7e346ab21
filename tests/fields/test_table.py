"""The table of fields itself, and what a new row costs."""

import re
from pathlib import Path

import pytest

import afterword
from afterword.completions.unsupported import REPETITION_MODIFIERS, UNSUPPORTED
from afterword.fields.field import GROUPS, RequestField
from afterword.fields.repeats import REPEAT_FIELDS
from afterword.fields.sampling import Sampling
from afterword.fields.shaping import SHAPING_FIELDS
from afterword.fields.table import DECLARED, EXTENSIONS, FEATURES, FIELDS

PACKAGE = Path(afterword.__file__).parent
SOURCES = {path: path.read_text(encoding="utf-8") for path in (*PACKAGE.rglob("*.py"), *PACKAGE.rglob("*.js"))}

REFERENCE = [
    "model",
    "prompt",
    "best_of",
    "echo",
    "frequency_penalty",
    "logit_bias",
    "logprobs",
    "max_tokens",
    "n",
    "presence_penalty",
    "seed",
    "stop",
    "stream",
    "stream_options",
    "suffix",
    "temperature",
    "top_p",
    "user",
]


def by_name(name: str) -> RequestField:
    return next(field for field in FIELDS if field.name == name)


def test_documented_fields_come_in_the_order_of_the_reference_and_before_the_others() -> None:
    assert [field.name for field in FIELDS if field.documented] == REFERENCE
    assert [field.name for field in FIELDS[: len(REFERENCE)]] == REFERENCE
    assert len(FIELDS) == len(DECLARED)


def test_no_name_is_taken_twice() -> None:
    names = [name for field in FIELDS for name in (field.name, *field.aliases)]
    assert len(names) == len(set(names))
    assert set(names) & {*UNSUPPORTED, *REPETITION_MODIFIERS} == set()


def test_a_field_is_an_extension_for_vendors_or_documented_but_not_both() -> None:
    assert [field.name for field in FIELDS if field.documented and field.vendors] == []
    assert {field.name for field in FIELDS if field.vendors} == set(EXTENSIONS)


@pytest.mark.parametrize(
    ("name", "control"),
    [
        ("ignore_eos", "switch"),
        ("best_of", "number"),
        ("repetition_penalty", "number"),
        ("min_p", "slider"),
        ("user", "text"),
        ("suffix", "text"),
        ("json_schema", "lines"),
        ("negative_prompt", "lines"),
        ("early_stopping", "switch"),
        ("stop", "texts"),
        ("stop_token_ids", "numbers"),
        ("logit_bias", "bias"),
    ],
)
def test_a_type_says_how_its_values_are_entered(name: str, control: str) -> None:
    assert by_name(name).control == control


@pytest.mark.parametrize(
    ("name", "feature"),
    [("prompt", "token_prompts"), ("presence_penalty", "penalties"), ("seed", "seed"), ("temperature", None)],
)
def test_a_field_names_the_feature_that_it_makes_use_of(name: str, feature: str | None) -> None:
    assert by_name(name).feature == feature
    assert feature is None or feature in FEATURES


@pytest.mark.parametrize(
    "greedy",
    [Sampling(temperature=9e-6, top_p=0.5, min_p=0.2), Sampling(top_p=0.0), Sampling(top_k=1), Sampling(min_p=1.0)],
    ids=["temperature", "top_p", "top_k", "min_p"],
)
def test_greedy_is_one_thing_however_it_is_said(greedy: Sampling) -> None:
    assert greedy.is_greedy
    assert greedy.plain() == Sampling(temperature=0.0)


def test_what_changes_logits_matters_to_a_greedy_request_too() -> None:
    kept = Sampling(temperature=0.0, frequency_penalty=1.0, repetition_penalty=1.2, logit_bias=((5, 1.0),))
    assert kept.plain() == kept
    assert Sampling(temperature=0.5, top_k=3).plain() == Sampling(temperature=0.5, top_k=3)


def homes(name: str) -> set[str]:
    """The files that have a word for a field, or its own."""
    return {path.relative_to(PACKAGE).as_posix() for path, text in SOURCES.items() if re.search(rf"\b{name}\b", text)}


def test_a_field_of_samplers_is_declared_once_and_used_where_tokens_are_drawn() -> None:
    assert homes("epsilon_cutoff") == {"fields/shaping.py", "fields/order.py", "engine/sampling/truncation.py"}


NEW = [field.name for field in (*SHAPING_FIELDS, *REPEAT_FIELDS) if field.name != "samplers"] + ["return_token_ids"]
"""Extensions that samplers are told, but one whose name is a plain word, and the last one that the answer got."""


@pytest.mark.parametrize("name", NEW)
def test_a_new_field_touches_at_most_six_files(name: str) -> None:
    assert len(homes(name)) <= 6


def test_every_group_of_the_form_has_a_field() -> None:
    assert {field.place for field in FIELDS} >= set(GROUPS)
