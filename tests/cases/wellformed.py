"""What holds of every answer whatever was asked: the shapes of bodies, chunks and errors.

docs/rules.md#body, docs/rules.md#chunks, docs/rules.md#log-probabilities, docs/rules.md#error-body
"""

import math
import re
from typing import Any

import httpx
import orjson
from tests.api.folding import chunks_of, fold
from tests.cases.case import Json

CHUNK_KEYS = ["id", "object", "created", "choices", "model", "system_fingerprint"]
BODY_KEYS = ["id", "object", "created", "model", "system_fingerprint", "choices", "usage"]
CONSTANT = ("id", "object", "created", "model", "system_fingerprint")


def body_of(response: httpx.Response) -> Json:
    """The plain answer, checked."""
    assert response.status_code == 200, response.text
    assert response.headers["content-type"] == "application/json"
    # Stricter than Python's own parser, which takes NaN and Infinity.
    body: Json = orjson.loads(response.content)
    assert list(body) == BODY_KEYS
    _check_head(body)
    assert [choice["index"] for choice in body["choices"]] == list(range(len(body["choices"])))
    for choice in body["choices"]:
        assert list(choice)[:4] == ["text", "index", "logprobs", "finish_reason"]
        assert choice["finish_reason"] in ("stop", "length")
        if choice["logprobs"] is not None:
            check_logprobs(choice["logprobs"])
    check_usage(body["usage"])
    return body


def stream_of(response: httpx.Response) -> list[Json]:
    """The chunks of a stream that ended well, checked."""
    assert response.status_code == 200, response.text
    assert response.headers["content-type"] == "text/event-stream"
    # Readers that take more characters than LF for line ends must find the same lines (docs/rules.md#safe-json).
    assert response.text.splitlines() == response.text.split("\n")[:-1]
    chunks = chunks_of(response.text)
    for chunk in chunks:
        assert list(chunk)[: len(CHUNK_KEYS)] == CHUNK_KEYS
        assert "error" not in chunk
        assert {name: chunk[name] for name in CONSTANT} == {name: chunks[0][name] for name in CONSTANT}
        for choice in chunk["choices"]:
            assert choice["finish_reason"] in (None, "stop", "length")
    _check_head(chunks[0])
    return chunks


def folded(response: httpx.Response) -> Json:
    """The body that a stream adds up to; its `usage` is None unless it was asked for."""
    whole = fold(stream_of(response))
    for choice in whole["choices"]:
        assert choice["finish_reason"] is not None
        if choice["logprobs"] is not None:
            check_logprobs(choice["logprobs"])
    return whole


def check_usage(usage: Json) -> None:
    """The sum is the sum, and nothing cached was not asked for."""
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]
    assert 0 <= usage["prompt_tokens_details"]["cached_tokens"] <= usage["prompt_tokens"]


def check_logprobs(logprobs: Json) -> None:
    """Four arrays of one length; finite numbers; each token's own value the same in both places."""
    tokens, own = logprobs["tokens"], logprobs["token_logprobs"]
    tops, offsets = logprobs["top_logprobs"], logprobs["text_offset"]
    assert len(tokens) == len(own) == len(offsets)
    assert offsets == sorted(offsets)
    assert None not in own[1:]
    for value in own:
        assert value is None or (math.isfinite(value) and value <= 0)
    if tops is None:
        return
    assert len(tops) == len(own)
    for token, value, top in zip(tokens, own, tops, strict=True):
        if value is None:
            assert top is None
            continue
        assert all(math.isfinite(other) for other in top.values())
        # Another token that spells the same may be the likelier one, and then it has the key.
        assert top[token] >= value


def check_error(response: httpx.Response, status: int) -> dict[str, Any]:
    """The error object of an answer that is one, also where a stream was asked for."""
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/json"
    assert not response.text.startswith("data:")
    body: Json = orjson.loads(response.content)
    assert list(body) == ["error"]
    error: dict[str, Any] = body["error"]
    assert list(error) == ["message", "type", "param", "code"]
    assert error["type"] == ("server_error" if status >= 500 else "invalid_request_error")
    assert len(error["message"]) > 10
    return error


def _check_head(answer: Json) -> None:
    assert re.fullmatch(r"cmpl-[A-Za-z0-9]{29}", answer["id"])
    assert answer["object"] == "text_completion"
    assert type(answer["created"]) is int
    assert re.fullmatch(r"fp_[0-9a-f]{10}", answer["system_fingerprint"])
