"""Constrained answers over HTTP: plain and as a stream, with everything else that a request can ask for."""

import asyncio
import json
from typing import Any

import jsonschema
import pytest
from tests.api.folding import chunks_of, fold
from tests.api.served import app_of, assert_error, client_of

SCHEMA = {
    "type": "object",
    "properties": {"kind": {"enum": ["a", "b"]}, "n": {"type": "integer", "minimum": 1, "maximum": 99}},
    "required": ["kind", "n"],
    "additionalProperties": False,
}
ASKED: dict[str, Any] = {"prompt": "hello ", "max_tokens": 60, "seed": 3, "json_schema": SCHEMA}


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"temperature": 0},
        {"n": 3},
        {"n": 2, "best_of": 4},
        {"logprobs": 2, "echo": True},
        {"return_token_ids": True},
        {"stop": ["}"], "include_stop_str_in_output": True},
        {"ignore_eos": True},
        {"min_tokens": 50},
        {"typical_p": 0.7, "xtc_probability": 0.5, "dry_multiplier": 0.8},
        {"frequency_penalty": 2, "repetition_penalty": 1.5},
    ],
    ids=str,
)
async def test_the_answer_is_what_the_schema_allows_plain_and_streamed(fields: dict[str, Any]) -> None:
    async with client_of(app_of()) as client:
        plain = await client.post("/v1/completions", json=ASKED | fields)
        if "best_of" not in fields:
            streaming = {"stream": True, "stream_options": {"include_usage": True}}
            stream = await client.post("/v1/completions", json=ASKED | fields | streaming)
            assert fold(chunks_of(stream.text))["choices"] == plain.json()["choices"]
    assert plain.status_code == 200, plain.text
    for choice in plain.json()["choices"]:
        assert choice["finish_reason"] == "stop"
        jsonschema.validate(
            json.loads(choice["text"].removeprefix("hello ") if "echo" in fields else choice["text"]), SCHEMA
        )


async def test_log_probabilities_stay_the_model_s_own() -> None:
    async with client_of(app_of()) as client:
        answer = await client.post("/v1/completions", json=ASKED | {"logprobs": 5, "regex": "zq", "json_schema": None})
    [choice] = answer.json()["choices"]
    assert choice["text"] == "zq"
    assert all(value < -3 for value in choice["logprobs"]["token_logprobs"][:2]), "the model would say something else"


async def test_what_is_left_out_by_the_length_is_cut() -> None:
    async with client_of(app_of()) as client:
        answer = await client.post("/v1/completions", json=ASKED | {"max_tokens": 4})
    [choice] = answer.json()["choices"]
    assert choice["finish_reason"] == "length"
    assert choice["text"].startswith("{")


@pytest.mark.parametrize(
    ("fields", "param", "words"),
    [
        ({"json_schema": None, "regex": "("}, "regex", "at 1(8): invalid regex"),
        ({"json_schema": None, "grammar": "start: foo"}, "grammar", "unknown name"),
        ({"json_schema": {"type": "string", "minLength": 2, "maxLength": 1}}, "json_schema", "Unsatisfiable"),
        ({"regex": "a"}, "regex", "cannot be combined with 'json_schema'"),
        ({"logit_bias": {"123": -100}}, "grammar", "together ban every token"),
    ],
)
async def test_what_cannot_be_done_is_a_400_that_says_why(fields: dict[str, Any], param: str, words: str) -> None:
    async with client_of(app_of()) as client:
        refused = await client.post("/v1/completions", json=ASKED | fields)
    assert_error(refused, 400, param, refused.json()["error"]["code"])
    error = refused.json()["error"]
    assert words in error["message"]


async def test_the_same_seed_gives_the_same_answer_alone_and_beside_others() -> None:
    async with client_of(app_of()) as client:
        alone = [(await client.post("/v1/completions", json=ASKED | {"seed": seed})).json() for seed in range(8)]
        beside = await asyncio.gather(
            *(client.post("/v1/completions", json=ASKED | {"seed": seed}) for seed in range(8)),
            *(client.post("/v1/completions", json={"prompt": "x", "max_tokens": 40}) for _ in range(8)),
        )
    assert [one["choices"] for one in alone] == [one.json()["choices"] for one in beside[:8]]
    assert len({one["choices"][0]["text"] for one in alone}) > 3
