"""Whole requests on the engine without a model: what holds for every answer."""

import asyncio
from dataclasses import asdict
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from afterword.completions.assemble import Assembler, Choice, Delta, join
from afterword.completions.completion import Completion
from afterword.completions.counting import Usage
from afterword.completions.parse import parse_body
from afterword.completions.resolve import resolve
from afterword.completions.run import run
from afterword.config.tree import ServerConfig
from afterword.engine.echo import EchoEngine
from afterword.registry import ServedModel

TEXT = st.text(alphabet="abé☃", max_size=4)
PROMPTS = st.one_of(
    TEXT,
    st.lists(TEXT, max_size=3),
    st.lists(st.lists(st.integers(0, 257), max_size=4), min_size=1, max_size=3),
)
FIELDS = st.fixed_dictionaries(
    {"seed": st.integers(-(2**63), 2**63 - 1), "prompt": PROMPTS},
    optional={
        "n": st.integers(1, 3),
        "echo": st.booleans(),
        "logprobs": st.integers(0, 3),
        "prompt_logprobs": st.integers(0, 3),
        "max_tokens": st.integers(0, 6),
        "stop": st.lists(st.sampled_from(["a", "ab", "é", "<|endoftext|>", "ba☃"]), max_size=2),
        "temperature": st.sampled_from([0, 0.5, 1, 2]),
        "ignore_eos": st.booleans(),
        "include_stop_str_in_output": st.booleans(),
        "skip_special_tokens": st.booleans(),
    },
)


class Answer:
    """What came of a request: its deltas, the choices they join to, the final counts."""

    def __init__(self, completion: Completion, deltas: list[Delta], usage: Usage) -> None:
        self.completion = completion
        self.deltas = deltas
        self.choices = join(deltas)
        self.usage = usage


def answer(fields: dict[str, Any]) -> Answer:
    async def collect() -> Answer:
        engine = EchoEngine()
        served = ServedModel("echo", engine, created=0)
        completion = resolve(parse_body(fields, strict=True), served, ServerConfig())
        assembler = Assembler(completion)
        deltas: list[Delta] = []
        async with run(completion, engine) as events:
            async for prompt_index, event in events:
                deltas += assembler.fold(prompt_index, event)
        await engine.aclose()
        return Answer(completion, deltas, assembler.usage())

    return asyncio.run(collect())


def plain(choice: Choice) -> dict[str, Any]:
    """The choice with lists in place of arrays, which do not compare as one."""
    return asdict(choice, dict_factory=lambda items: {k: _listed(v) for k, v in items})


def _listed(value: Any) -> Any:
    return value.tolist() if isinstance(value, np.ndarray) else value


@settings(max_examples=60)
@given(FIELDS)
def test_the_joined_stream_is_the_plain_answer(fields: dict[str, Any]) -> None:
    streamed, whole = answer(fields | {"stream": True}), answer(fields)
    assert [plain(choice) for choice in streamed.choices] == [plain(choice) for choice in whole.choices]
    assert streamed.usage == whole.usage


@settings(max_examples=60)
@given(FIELDS)
def test_every_choice_is_whole(fields: dict[str, Any]) -> None:
    result = answer(fields | {"stream": True})
    completion, n = result.completion, result.completion.n
    shown = completion.shown
    assert [choice.index for choice in result.choices] == list(range(completion.n_choices))
    for choice in result.choices:
        deltas = [delta for delta in result.deltas if delta.index == choice.index]
        prompt = completion.prompts[choice.index // n]
        assert [delta.finish_reason for delta in deltas[:-1]] == [None] * (len(deltas) - 1)
        assert deltas[-1].finish_reason == "length" or (deltas[-1].text, deltas[-1].tokens) == ("", ())
        assert all(delta.echo is None and delta.prompt_scores is None for delta in deltas[1:])
        assert not shown.echo or choice.text.startswith(prompt.text)
        assert (choice.echo is not None) == (shown.echo and shown.logprobs is not None)
        assert (choice.prompt_scores is not None) == (shown.prompt_logprobs is not None)
        assert shown.logprobs is not None or choice.tokens == ()
    assert result.usage.prompt_tokens == sum(len(prompt.tokens) for prompt in completion.prompts)


@settings(max_examples=40)
@given(FIELDS, st.integers(1, 3))
def test_best_of_is_the_best_of_as_many_choices(fields: dict[str, Any], n: int) -> None:
    fields = fields | {"n": n, "logprobs": 0, "ignore_eos": True, "stop": None, "skip_special_tokens": False}
    best, every = answer(fields | {"best_of": 4}), answer(fields | {"n": 4})
    expected = []
    for i in range(len(every.completion.prompts)):
        of_prompt = every.choices[4 * i : 4 * i + 4]
        expected += sorted(of_prompt, key=lambda choice: -_mean(choice))[:n]
    assert [choice.tokens for choice in best.choices] == [choice.tokens for choice in expected]
    assert [choice.text for choice in best.choices] == [choice.text for choice in expected]
    assert best.usage.completion_tokens == every.usage.completion_tokens


def _mean(choice: Choice) -> float:
    values = [token.logprob for token in choice.tokens]
    return sum(values) / len(values) if values else -np.inf


@pytest.mark.parametrize(
    ("fields", "text", "reason", "n_tokens"),
    [
        ({}, "abcab", "length", 5),
        ({"echo": True}, "abcabcab", "length", 5),
        ({"max_tokens": 0}, "", "length", 0),
        ({"max_tokens": 0, "echo": True}, "abc", "length", 0),
        ({"stop": "ca"}, "ab", "stop", 4),
        ({"stop": "ab", "max_tokens": 2}, "", "stop", 2),
        ({"stop": "ca", "include_stop_str_in_output": True}, "abca", "stop", 4),
    ],
    ids=["plain", "echo", "nothing", "scoring", "stop", "stop-on-the-last-token", "stop-kept"],
)
def test_an_echo_engine_repeats_the_prompt(fields: dict[str, Any], text: str, reason: str, n_tokens: int) -> None:
    result = answer({"prompt": "abc", "temperature": 0, "max_tokens": 5, "seed": 0} | fields)
    [choice] = result.choices
    assert (choice.text, choice.finish_reason, result.usage.completion_tokens) == (text, reason, n_tokens)


def test_a_character_that_a_token_array_began_is_completed_in_the_text() -> None:
    [choice] = answer({"prompt": [0xA9, 0x61, 0xC3], "temperature": 0, "max_tokens": 2, "seed": 0}).choices
    assert choice.text == "éa"
