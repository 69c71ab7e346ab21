"""An upstream's events as values: both shapes of log-probabilities, errors, and what is no completion."""

import json
from typing import Any

import pytest

from afterword.engine.upstream.reply import (
    ChoiceDelta,
    Counts,
    Entry,
    MalformedReply,
    Named,
    Reply,
    ReplyError,
    parse_event,
)


def parsed(**event: Any) -> Reply | ReplyError:
    return parse_event(json.dumps(event).encode())


def choice(**changes: Any) -> dict[str, Any]:
    return {"index": 0, "text": "a", "logprobs": None, "finish_reason": None} | changes


def test_a_chunk_without_log_probabilities() -> None:
    assert parsed(choices=[choice(index=2, finish_reason="stop")], system_fingerprint="fp_1") == Reply(
        (ChoiceDelta(2, "a", (), "stop"),), None, "fp_1"
    )


def test_the_legacy_shape() -> None:
    logprobs = {
        "tokens": ["a", "bytes:\\xe2"],
        "token_logprobs": [None, -1],
        "top_logprobs": [None, {"b": -0.5, "bytes:\\xe2": -1}],
        "text_offset": [0, 1],
    }
    assert parsed(choices=[choice(logprobs=logprobs)]) == Reply(
        (
            ChoiceDelta(
                0,
                "a",
                (
                    Entry(Named("a"), None, ()),
                    Entry(Named("bytes:\\xe2"), -1.0, ((Named("b"), -0.5), (Named("bytes:\\xe2"), -1.0))),
                ),
                None,
            ),
        ),
        None,
        None,
    )


def test_the_legacy_shape_without_alternatives() -> None:
    logprobs = {"tokens": ["a"], "token_logprobs": [-0.5], "top_logprobs": None, "text_offset": [0]}
    reply = parsed(choices=[choice(logprobs=logprobs)])
    assert isinstance(reply, Reply)
    assert reply.choices[0].entries == (Entry(Named("a"), -0.5, ()),)


@pytest.mark.parametrize(
    "logprobs", [{}, {"tokens": []}, {"tokens": [], "token_logprobs": [], "top_logprobs": [], "text_offset": []}]
)
def test_log_probabilities_of_nothing(logprobs: dict[str, Any]) -> None:
    reply = parsed(choices=[choice(logprobs=logprobs)])
    assert isinstance(reply, Reply)
    assert reply.choices[0].entries == ()


def test_the_shape_of_chat_completions() -> None:
    top = [{"id": 5, "token": "b", "bytes": [98], "logprob": -0.25}]
    content = [{"id": 7, "token": "", "bytes": [0xE2, 0x80], "logprob": -2.5, "top_logprobs": top}]
    reply = parsed(choices=[choice(logprobs={"content": content})])
    assert isinstance(reply, Reply)
    assert reply.choices[0].entries == (Entry(Named("", 7, b"\xe2\x80"), -2.5, ((Named("b", 5, b"b"), -0.25),)),)


def test_counts() -> None:
    usage = {"prompt_tokens": 3, "completion_tokens": 0, "prompt_tokens_details": {"cached_tokens": 2}}
    assert parsed(choices=[], usage=usage) == Reply((), Counts(3, 2, 0), None)
    assert parsed(choices=[], usage={"prompt_tokens": 3}) == Reply((), Counts(3, None, None), None)
    assert parsed(choices=[], usage={"prompt_tokens": 3, "prompt_tokens_details": None}) == Reply(
        (), Counts(3, None, None), None
    )


@pytest.mark.parametrize(
    ("usage", "counts"),
    [
        pytest.param(5, Counts(None, None, None), id="no object"),
        pytest.param({"prompt_tokens": "5", "completion_tokens": True}, Counts(None, None, None), id="no numbers"),
        pytest.param({"prompt_tokens": -1, "completion_tokens": 1.5}, Counts(None, None, None), id="no counts"),
        pytest.param({"prompt_tokens": 5.0, "completion_tokens": 0.0}, Counts(5, None, 0), id="written as floats"),
        pytest.param({"prompt_tokens": 2**31, "completion_tokens": 1e300}, Counts(None, None, None), id="too many"),
        pytest.param(
            {"prompt_tokens": 5, "prompt_tokens_details": {"cached_tokens": 6}}, Counts(5, 5, None), id="more cached"
        ),
        pytest.param({"prompt_tokens": 5, "prompt_tokens_details": 6}, Counts(5, None, None), id="no details"),
    ],
)
def test_gate_01_counts_that_cannot_be_are_not_known(usage: object, counts: Counts) -> None:
    assert parsed(choices=[], usage=usage) == Reply((), counts, None)


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        pytest.param(
            {"error": {"message": "m", "type": "t", "param": "n", "code": "c"}},
            ReplyError("m", "n", "c", "t", None, {}),
            id="OpenAI's",
        ),
        pytest.param(
            {"error": {"message": "m", "type": "exceed_context_size_error", "code": 400, "n_ctx": 8}},
            ReplyError("m", None, None, "exceed_context_size_error", 400, {"code": 400, "n_ctx": 8}),
            id="llama-server's",
        ),
        pytest.param(
            {"object": "error", "message": "m", "type": "BadRequestError", "code": 400},
            ReplyError("m", None, None, "BadRequestError", 400, {"code": 400}),
            id="an older server's",
        ),
        pytest.param({"error": "Unauthorized"}, ReplyError("Unauthorized", None, None, None, None, {}), id="a text"),
    ],
)
def test_errors(event: dict[str, Any], expected: ReplyError) -> None:
    assert parsed(**event) == expected


@pytest.mark.parametrize(
    "data",
    [
        b"{",
        b"[]",
        b"1",
        b'{"choices": 1}',
        b'{"choices": [1]}',
        b'{"choices": [{"text": 1}]}',
        b'{"choices": [{"text": "a", "index": "0"}]}',
        b'{"choices": [{"text": "a", "index": -1}]}',
        b'{"choices": [{"text": "a", "logprobs": [1]}]}',
        b'{"choices": [{"text": "a", "logprobs": {"tokens": ["a"]}}]}',
        b'{"choices": [{"text": "a", "logprobs": {"tokens": ["a"], "token_logprobs": []}}]}',
        b'{"choices": [{"text": "a", "logprobs": {"tokens": [7], "token_logprobs": [-1]}}]}',
        b'{"choices": [{"text": "a", "logprobs": {"tokens": ["a"], "token_logprobs": ["-1"]}}]}',
        b'{"choices": [{"text": "a", "logprobs": {"content": [{"token": "a"}]}}]}',
        b'{"choices": [{"text": "a", "logprobs": {"content": [{"token": "a", "logprob": -1, "bytes": [256]}]}}]}',
    ],
)
def test_what_is_no_completion_is_said_to_be_none(data: bytes) -> None:
    with pytest.raises(MalformedReply):
        parse_event(data)


@pytest.mark.parametrize(
    ("sent", "meant"),
    [
        (None, None),
        ("", None),
        (" ", None),
        ("eos_token", "stop"),
        ("stop_sequence", "stop"),
        ("STOP", "stop"),
        ("max_tokens", "length"),
        ("Length", "length"),
        ("abort", "abort"),
    ],
)
def test_gate_03_finish_reasons_of_other_servers_are_understood(sent: str | None, meant: str | None) -> None:
    reply = parsed(choices=[choice(finish_reason=sent)])
    assert isinstance(reply, Reply)
    assert reply.choices[0].finish_reason == meant
