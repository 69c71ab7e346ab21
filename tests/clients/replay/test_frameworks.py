"""Frameworks and evaluation suites: explicit nulls, prompt lists, and arithmetic on offsets."""

import json
from typing import Any

import pytest
from tests.clients.replay.wire import Json, Wire, require_completion, stream_of


def test_semantic_kernel_sends_every_setting(wire: Wire) -> None:
    body: Json = {
        "model": "echo",
        "prompt": "hello ",
        "best_of": 1,
        "echo": False,
        "frequency_penalty": 0.0,
        "logit_bias": {},
        "logprobs": 5,
        "max_tokens": 5,
        "n": 1,
        "presence_penalty": 0.0,
        "seed": None,
        "stop": None,
        "stream": False,
        "suffix": None,
        "temperature": 0.0,
        "top_p": 1.0,
        "user": None,
    }
    answer = wire.post(body).json()
    require_completion(answer)
    assert answer["choices"][0]["text"] == "hello"


def test_semantic_kernel_skips_the_chunk_without_choices(wire: Wire) -> None:
    body: Json = {
        "model": "echo",
        "prompt": "hello ",
        "max_tokens": 5,
        "temperature": 0,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    chunks = stream_of(wire.post(body))
    assert [len(chunk["choices"]) for chunk in chunks] == [1, 1, 1, 1, 1, 0]
    assert [chunk["usage"] is None for chunk in chunks] == [True] * 5 + [False]


def test_promptfoo(wire: Wire) -> None:
    body: Json = {
        "model": "echo",
        "prompt": "hello<|im_end|>",
        "max_tokens": 1024,
        "temperature": 0,
        "top_p": 1,
        "presence_penalty": 0,
        "frequency_penalty": 0,
        "best_of": 1,
        "stop": ["<|im_end|>", "<|endoftext|>"],
    }
    answer = wire.post(body).json()
    assert "error" not in answer
    assert (answer["choices"][0]["text"], answer["choices"][0]["finish_reason"]) == ("hello", "stop")
    assert answer["usage"]["total_tokens"] == 15 + answer["usage"]["completion_tokens"]


GENGPT3: Json = {
    "n": 1,
    "model": "echo",
    "temperature": 0,
    "max_tokens": 4,
    "logprobs": 0,
    "echo": True,
    "stop": None,
    "suffix": None,
    "best_of": None,
    "user": None,
}


@pytest.mark.parametrize("prompt", ["abc ", "Škoda “🙂”"], ids=["ascii", "other"])
def test_gengpt3_finds_the_completion_where_the_prompt_ends(wire: Wire, prompt: str) -> None:
    [choice] = wire.post(GENGPT3 | {"prompt": prompt}).json()["choices"]
    logprobs = choice["logprobs"]
    # Julia's findfirst would give nothing here, and the sum after it an error.
    start = logprobs["text_offset"].index(len(prompt))
    assert start == len(prompt.encode())
    assert all(value <= 0 for value in logprobs["token_logprobs"][start:])
    assert len(logprobs["token_logprobs"][start:]) == 4


def test_gengpt3_scores_a_batch_without_generating(wire: Wire) -> None:
    prompts = ["ab", "abc", "é"]
    answer = wire.post(GENGPT3 | {"prompt": prompts, "max_tokens": 0}).json()
    by_index = {choice["index"]: choice for choice in answer["choices"]}
    for number, prompt in enumerate(prompts):
        assert by_index[number]["text"] == prompt
        assert len(by_index[number]["logprobs"]["token_logprobs"]) == len(prompt.encode())
    assert answer["usage"]["completion_tokens"] == 0


def test_r_openai_wants_exactly_json(wire: Wire) -> None:
    body: Json = {
        "model": "echo",
        "prompt": "<|endoftext|>",
        "suffix": None,
        "max_tokens": 16,
        "temperature": 1,
        "top_p": 1,
        "n": 1,
        "stream": False,
        "logprobs": None,
        "echo": False,
        "stop": None,
        "presence_penalty": 0,
        "frequency_penalty": 0,
        "best_of": 1,
        "logit_bias": None,
        "user": None,
    }
    response = wire.post(body)
    assert response.headers["content-type"].split(";")[0] == "application/json"
    answer = response.json()
    require_completion(answer)
    assert answer["usage"]["prompt_tokens"] == 1


@pytest.mark.parametrize(
    ("prompt", "texts"),
    [
        ("0123456789abcdef+", ["0123456789abcdef"]),
        ([48, 49, 50], ["0120120120120120"]),
        (["ab", "cd"], ["abababababababab", "cdcdcdcdcdcdcdcd"]),
    ],
    ids=["text", "tokens", "texts"],
)
def test_openai_evals_leaves_the_length_to_the_server(wire: Wire, prompt: object, texts: list[str]) -> None:
    answer = wire.post({"model": "echo", "prompt": prompt, "temperature": 0.0}).json()
    assert [choice["text"] for choice in answer["choices"]] == texts


def test_openai_evals_takes_a_ballot_with_a_bias_for_many_tokens(wire: Wire) -> None:
    body: Json = {
        "model": "echo",
        "prompt": "Yes or no?",
        "temperature": 0.0,
        "max_tokens": 1,
        "logit_bias": {str(token): 100 for token in (89, 78, 121, 110)} | {str(token): -100 for token in range(32)},
    }
    assert wire.post(body).json()["choices"][0]["text"] in {"Y", "N", "y", "n"}


def token_bytes(spelled: str) -> bytes:
    """LMQL's reading of a token."""
    if spelled.startswith("bytes:"):
        return bytes(int(digits, 16) for digits in spelled.removeprefix("bytes:").split("\\x")[1:])
    return spelled.encode()


def lmql_chunks(text: str) -> list[Any]:
    """LMQL's reading of a stream: cut where a line starts with `data: `, whatever is in between."""
    pieces = [piece.strip() for piece in ("\n" + text).split("\ndata: ")]
    assert pieces.pop(0) == ""
    assert pieces.pop() == "[DONE]"
    return [json.loads(piece) for piece in pieces]


def test_lmql_skips_the_prompt_by_its_tokens_bytes(wire: Wire) -> None:
    prompts = ["ab “é” ", "🙂 "]
    body: Json = {
        "model": "echo",
        "prompt": prompts,
        "max_tokens": 6,
        "temperature": 0,
        "logprobs": 2,
        "user": "lmql",
        "stream": True,
        "echo": True,
        "logit_bias": {str(token): 0 for token in range(256)},
    }
    read = [b"", b""]
    for chunk in lmql_chunks(wire.post(body).text):
        for choice in chunk["choices"]:
            read[choice["index"]] += b"".join(map(token_bytes, choice["logprobs"]["tokens"]))
    for prompt, spelled in zip(prompts, read, strict=True):
        whole = prompt.encode()
        assert spelled.startswith(whole)
        # One token a byte: the echo model starts the prompt again.
        assert spelled[len(whole) :] == (whole + whole)[:6]


def test_lmql_scores_with_a_stream(wire: Wire) -> None:
    body: Json = {
        "model": "echo",
        "prompt": ["abc", "abd"],
        "max_tokens": 0,
        "temperature": 0,
        "logprobs": 1,
        "user": "lmql",
        "stream": True,
        "echo": True,
    }
    chunks = lmql_chunks(wire.post(body).text)
    listed = {0: 0, 1: 0}
    for chunk in chunks:
        listed[chunk["choices"][0]["index"]] += len(chunk["choices"][0]["logprobs"]["token_logprobs"])
    assert listed == {0: 3, 1: 3}
