"""Random requests, in process: every answer keeps the rules, its stream says the same, and nonsense is refused well."""

import json
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from tests.api.folding import chunks_of, fold
from tests.api.served import app_of, client_of
from tests.fuzz.bodies import JUNK, any_bodies, good_bodies
from tests.fuzz.rules import check_answer, check_error

from afterword.fields.table import FIELDS

BOUNDED = settings(suppress_health_check=[HealthCheck.too_slow])

Json = dict[str, Any]


async def post(body: object, path: str = "/v1/completions") -> httpx.Response:
    """Ask an application of its own."""
    async with client_of(app_of()) as client:
        return await client.post(path, content=json.dumps(body))


@settings(BOUNDED, max_examples=150)
@given(good_bodies())
# Half of a surrogate in UTF-8, which is nothing that could still become a character.
@example({"seed": 0, "prompt": [237, 160], "max_tokens": 2, "temperature": 0, "logprobs": 1})
@example({"seed": 0, "prompt": [226, 130], "max_tokens": 2, "temperature": 0, "logprobs": 1, "echo": True})
@example({"seed": 0, "prompt": [240, 159, 153], "logit_bias": {"130": 100}, "max_tokens": 1, "logprobs": 1})
# An end that has a text: it is listed and not shown.
@example({"seed": 0, "prompt": [0], "stop_token_ids": [0], "logprobs": 0})
async def test_every_answer_keeps_the_rules(body: Json) -> None:
    response = await post(body)
    assert response.status_code == 200, response.text
    check_answer(body, response.json())


@settings(BOUNDED, max_examples=100)
@given(good_bodies())
async def test_a_stream_folds_to_the_plain_answer(body: Json) -> None:
    body = body | {"best_of": None}
    plain = (await post(body)).json()
    streamed = await post(body | {"stream": True, "stream_options": {"include_usage": True}})
    folded = fold(chunks_of(streamed.text))
    assert folded == {"choices": plain["choices"], "usage": plain["usage"]}


@settings(BOUNDED, max_examples=60)
@given(any_bodies(), st.booleans())
async def test_both_dialects_give_the_same_choices_and_refusals(body: Json, stream: bool) -> None:
    # A short name is the one thing that only one of them takes, and without a seed no two answers are alike.
    body = body | {"stream": stream, "seed": 1}
    other = body | {"model": "local/echo"} if body.get("model") == "echo" else body
    one, two = await post(body), await post(other, "/v5/completions")
    assert one.status_code == two.status_code
    if one.status_code == 200 and stream:
        assert fold(chunks_of(one.text)) == fold(chunks_of(two.text.replace("event: done\n", "")))
    else:
        own = dict.fromkeys(("id", "created", "model"))
        assert one.json() | own == two.json() | own


@settings(BOUNDED, max_examples=150)
@given(any_bodies())
@example({"prompt": [258]})
@example({"logit_bias": {"258": 1}})
@example({"stop_token_ids": [258]})
async def test_anything_is_answered_or_refused_well(body: Json) -> None:
    response = await post(body)
    if response.status_code != 200:
        check_error(response.status_code, response.json())


@settings(BOUNDED, max_examples=60)
@given(st.sampled_from(["/v1/completions", "/tokenize", "/detokenize"]), st.one_of(JUNK.map(json.dumps), st.text()))
async def test_any_body_is_answered_or_refused_well(path: str, body: str) -> None:
    async with client_of(app_of()) as client:
        response = await client.post(path, content=body.encode("utf-8", "surrogatepass"))
    if response.status_code != 200:
        check_error(response.status_code, response.json())


@settings(BOUNDED, max_examples=60)
@given(st.text(alphabet=st.characters(exclude_categories=["Cs"])))
async def test_a_text_survives_its_tokens(text: str) -> None:
    tokens = (await post({"prompt": text}, "/tokenize")).json()["tokens"]
    assert (await post({"tokens": tokens}, "/detokenize")).json() == {"prompt": text}


INTEGERS = [field.name for field in FIELDS if field.le is None and type(field.default) is int]
REPEATING = {
    "prompt": "abc abc abc",
    "max_tokens": 6,
    "ignore_eos": True,
    "dry_multiplier": 1,
    "repetition_penalty": 1.3,
}


@pytest.mark.parametrize("name", INTEGERS)
async def test_a_number_may_be_larger_than_any_text(name: str) -> None:
    async with client_of(app_of()) as client:
        for number in (2**31, 2**32, 2**63 - 1, 2**63, 10**30):
            for body in (REPEATING, REPEATING | {"mirostat": 2, "stream": True}, {"prompt": "abc", "max_tokens": 2}):
                response = await client.post("/v1/completions", json=body | {name: number})
                assert response.status_code in (200, 400), (number, response.text)
                assert "server_error" not in response.text, (number, response.text)
