"""The tokenizer routes."""

from typing import Any

import pytest
from tests.api.served import app_of, assert_error, client_of

from afterword.engine.echo import EchoEngine
from afterword.tokens import ByteTokenizer


async def test_text_becomes_ids_and_control_tokens_are_read() -> None:
    async with client_of(app_of(EchoEngine(context=64))) as client:
        response = await client.post("/tokenize", json={"prompt": "hi<|endoftext|>", "add_special_tokens": False})
    assert response.json() == {"count": 3, "max_model_len": 64, "tokens": [104, 105, 256], "token_strs": None}


async def test_tokens_are_spelled_if_asked_for() -> None:
    async with client_of(app_of()) as client:
        response = await client.post("/tokenize/", json={"prompt": "é", "return_token_strs": True, "model": "default"})
    assert response.json()["token_strs"] == ["bytes:\\xc3", "bytes:\\xa9"]


class BosTokenizer(ByteTokenizer):
    """Bytes with a BOS in front, as the model's metadata asks."""

    def __init__(self) -> None:
        super().__init__()
        self.bos_id = self.CONTROL
        self.add_bos = True

    def encode(self, text: str, *, add_bos: bool, parse_special: bool) -> list[int]:
        tokens = super().encode(text, add_bos=False, parse_special=parse_special)
        return [self.CONTROL, *tokens] if add_bos else tokens


@pytest.mark.parametrize(
    ("body", "expected"),
    [({}, [257, 97]), ({"add_special_tokens": None}, [257, 97]), ({"add_special_tokens": False}, [97])],
)
async def test_bos_comes_only_where_the_model_wants_it_and_the_client_does_not_mind(
    body: dict[str, Any], expected: list[int]
) -> None:
    engine = EchoEngine()
    engine.tokenizer = BosTokenizer()
    async with client_of(app_of(engine)) as client:
        response = await client.post("/tokenize", json={"prompt": "a"} | body)
    assert response.json()["tokens"] == expected


async def test_ids_become_text_again() -> None:
    async with client_of(app_of()) as client:
        response = await client.post("/detokenize", json={"tokens": [195, 169, 256, 195]})
    assert response.json() == {"prompt": "é<|endoftext|>\ufffd"}


@pytest.mark.parametrize("tokens", [None, "abc", [258], [-1], [True], [1.0], ["1"], [[1]], [10**30]])
async def test_what_is_no_token_id_is_refused(tokens: object) -> None:
    async with client_of(app_of()) as client:
        response = await client.post("/detokenize", json={"tokens": tokens})
    assert response.status_code == 400
    assert response.json()["error"]["param"] == "tokens"


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({}, "prompt"),
        ({"prompt": ["a"]}, "prompt"),
        ({"prompt": "a", "add_special_tokens": 1}, "add_special_tokens"),
        ({"prompt": "a", "model": 3}, "model"),
    ],
)
async def test_wrong_types_are_named(body: dict[str, Any], param: str) -> None:
    async with client_of(app_of()) as client:
        assert_error(await client.post("/tokenize", json=body), 400, param, "invalid_type")


async def test_http_22_a_text_is_tokenized_up_to_a_limit() -> None:
    async with client_of(app_of(max_text_bytes=10)) as client:
        assert (await client.post("/tokenize", json={"prompt": "a" * 10})).json()["count"] == 10
        refused = await client.post("/tokenize", json={"prompt": "é" * 6})
        assert_error(refused, 400, "prompt", "string_above_max_length")


async def test_the_end_of_text_token_can_be_found_as_harnesses_do() -> None:
    async with client_of(app_of()) as client:
        info = (await client.get("/tokenizer_info", params={"model": "echo"})).json()
        ids = await client.post("/tokenize", json={"prompt": info["eos_token"], "add_special_tokens": False})
    assert ids.json()["tokens"] == [256]
    assert info == {
        "tokenizer_class": "bytes",
        "bos_token": None,
        "eos_token": "<|endoftext|>",
        "pad_token": None,
        "add_bos_token": False,
        "vocab_size": 258,
        "model_max_length": 8192,
        "chat_template": None,
    }


async def test_an_unknown_model_is_404_everywhere() -> None:
    async with client_of(app_of()) as client:
        assert_error(await client.get("/tokenizer_info?model=gone"), 404, "model", "model_not_found")
        body = {"model": "gone", "prompt": "a", "tokens": []}
        assert_error(await client.post("/tokenize", json=body), 404, "model", "model_not_found")
        assert_error(await client.post("/detokenize", json=body), 404, "model", "model_not_found")
