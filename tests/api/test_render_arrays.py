"""Log-probabilities in base64: the numbers that JSON has, and as many of them as there are."""

import base64
from typing import Any

import httpx
import numpy as np
import pytest
from numpy.typing import NDArray
from tests.api.folding import chunks_of
from tests.api.served import app_of, assert_error, client_of

N_VOCAB = 258
ASK: dict[str, Any] = {"prompt": "hello ", "max_tokens": 4, "temperature": 0, "echo": True}
TYPES = {"int32": "<i4", "float32": "<f4"}


def narrow(values: list[float]) -> list[float]:
    """As they are in 32 bits."""
    found: list[float] = np.asarray(values, dtype=np.float32).tolist()
    return found


def numbers(array: dict[str, Any]) -> NDArray[Any]:
    assert list(array) == ["dtype", "shape", "data"]
    return np.frombuffer(base64.b64decode(array["data"]), TYPES[array["dtype"]]).reshape(array["shape"])


async def choice(client: httpx.AsyncClient, **fields: Any) -> dict[str, Any]:
    response = await client.post("/v1/completions", json=ASK | fields)
    assert response.status_code == 200, response.text
    found: dict[str, Any] = response.json()["choices"][0]
    return found


@pytest.mark.parametrize("k", [0, 1, 7])
async def test_arrays_have_the_numbers_of_the_objects(k: int) -> None:
    async with client_of(app_of()) as client:
        objects = await choice(client, logprobs=k, prompt_logprobs=k, return_token_ids=True)
        arrays = await choice(client, logprobs=k, prompt_logprobs=k, logprobs_format="base64")
    found = {name: numbers(array) for name, array in arrays["logprobs"].items()}
    shown = objects["logprobs"]
    assert list(found) == ["token_ids", "token_logprobs", "top_ids", "top_logprobs", "text_offset"]
    assert found["token_ids"].tolist() == objects["prompt_token_ids"] + objects["token_ids"]
    assert found["text_offset"].tolist() == shown["text_offset"]
    assert np.isnan(found["token_logprobs"][0])
    assert found["token_logprobs"][1:].tolist() == narrow(shown["token_logprobs"][1:])
    n = len(shown["tokens"])
    assert found["top_ids"].shape == found["top_logprobs"].shape == (n, k)
    if k > 0:
        assert (found["top_ids"][0] == -1).all()
        likeliest = [max(tops.values()) for tops in shown["top_logprobs"][1:]]
        assert found["top_logprobs"][1:, 0].tolist() == narrow(likeliest)
    prompt = {name: numbers(array) for name, array in arrays["prompt_logprobs"].items()}
    assert prompt["top_ids"].tolist() == found["top_ids"][: len(ASK["prompt"])].tolist()


async def test_the_whole_vocabulary_adds_up_to_one_at_every_place_also_in_a_stream() -> None:
    async with client_of(app_of()) as client:
        plain = (await choice(client, logprobs=N_VOCAB, logprobs_format="base64"))["logprobs"]
        body = ASK | {"logprobs": N_VOCAB, "logprobs_format": "base64", "stream": True}
        chunks = chunks_of((await client.post("/v1/completions", json=body)).text)
    whole = numbers(plain["top_logprobs"])
    assert whole.shape == (10, N_VOCAB)
    assert np.exp(whole[1:].astype(np.float64)).sum(axis=1) == pytest.approx(1)
    assert all(sorted(row) == list(range(N_VOCAB)) for row in numbers(plain["top_ids"])[1:].tolist())
    for name in plain:
        parts = [numbers(chunk["choices"][0]["logprobs"][name]) for chunk in chunks]
        assert np.concatenate(parts).tobytes() == numbers(plain[name]).tobytes()


async def test_named_tokens_are_the_columns() -> None:
    async with client_of(app_of()) as client:
        named = await choice(client, logprobs=0, logprob_token_ids=[122, 104], logprobs_format="base64")
        whole = await choice(client, logprobs=N_VOCAB, logprobs_format="base64")
    ids, values = numbers(whole["logprobs"]["top_ids"]), numbers(whole["logprobs"]["top_logprobs"])
    assert numbers(named["logprobs"]["top_ids"])[1:].tolist() == [[122, 104]] * 9
    for place in range(1, 10):
        expected = [values[place][ids[place] == token].item() for token in (122, 104)]
        assert numbers(named["logprobs"]["top_logprobs"])[place].tolist() == expected


async def test_limits_are_named() -> None:
    base64_form = {"logprobs_format": "base64"}
    async with client_of(app_of(max_listed=1000)) as client:
        for body, param, code in (
            (ASK | {"logprobs": N_VOCAB} | base64_form, "logprobs", "integer_above_max_value"),
            (ASK | {"logprobs": N_VOCAB + 1} | base64_form, "logprobs", "integer_above_max_value"),
            (ASK | {"logprobs": 1, "logprobs_format": "xml"}, "logprobs_format", "invalid_value"),
            (ASK | base64_form, "logprobs_format", None),
        ):
            assert_error(await client.post("/v1/completions", json=body), 400, param, code)
    async with client_of(app_of(strict=True)) as client:
        assert_error(
            await client.post("/v1/completions", json=ASK | {"logprobs": 6} | base64_form),
            400,
            "logprobs",
            "integer_above_max_value",
        )
