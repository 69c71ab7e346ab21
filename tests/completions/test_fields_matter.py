"""No field is taken and then ignored: each changes what is done, or is refused."""

from typing import Any

import pytest
from tests.completions.scripted import MID, PRE, SUF, AsciiTokenizer, completion, served

from afterword.completions.completion import Completion
from afterword.fields.shapes import StreamOptions
from afterword.fields.table import FIELDS
from afterword.tokens import InfillTokens

ELSEWHERE = {"model", "stream_options"}
"""The one is chosen from the registry before a request is resolved, the other's own fields are walked below."""

CHANGES: dict[str, Any] = {
    "prompt": "other",
    "best_of": 2,
    "echo": True,
    "frequency_penalty": 0.5,
    "logit_bias": {"5": 1},
    "logprobs": 0,
    "max_tokens": 0,
    "n": 2,
    "presence_penalty": 0.5,
    "seed": 1,
    "stop": "x",
    "stream": True,
    "suffix": "after",
    "temperature": 0,
    "top_p": 0,
    "user": "somebody",
    "top_k": 1,
    "min_p": 0.1,
    "repetition_penalty": 1.1,
    "ignore_eos": True,
    "min_tokens": 1,
    "stop_token_ids": [7],
    "add_special_tokens": False,
    "skip_special_tokens": False,
    "include_stop_str_in_output": True,
    "truncate_prompt_tokens": 1,
    "prompt_logprobs": 0,
    "return_tokens_as_token_ids": True,
    "return_token_ids": True,
}
BASE: dict[str, Any] = {"prompt": "some text"}


def marked() -> AsciiTokenizer:
    return AsciiTokenizer(infill=InfillTokens(prefix=PRE, suffix=SUF, middle=MID))


@pytest.mark.parametrize("name", [field.name for field in FIELDS if field.name not in ELSEWHERE])
def test_every_field_changes_what_is_done(name: str) -> None:
    model = served(marked())
    assert completion(model, **(BASE | {name: CHANGES[name]})) != completion(model, **BASE)


def sampled(request: Completion) -> list[tuple[Any, ...]]:
    """Whatever decides which tokens each candidate samples."""
    names = (
        "prompt",
        "n_candidates",
        "max_tokens",
        "sampling",
        "seed",
        "prompt_index",
        "min_tokens",
        "end_ids",
        "stops",
    )
    return [tuple(getattr(one, name) for name in names) for one in request.generations]


@pytest.mark.parametrize("name", [field.name for field in FIELDS if field.kind != "sampling"])
def test_a_field_that_only_shapes_the_answer_samples_the_same_tokens(name: str) -> None:
    if name not in ELSEWHERE:
        assert sampled(completion(**(BASE | {name: CHANGES[name]}))) == sampled(completion(**BASE))


@pytest.mark.parametrize("name", StreamOptions.model_fields)
def test_every_stream_option_changes_what_is_done(name: str) -> None:
    default = StreamOptions.model_fields[name].default
    streamed = BASE | {"stream": True}
    assert completion(**(streamed | {"stream_options": {name: not default}})) != completion(**streamed)
    assert completion(**(streamed | {"stream_options": {name: default}})) == completion(**streamed)
