"""How a stream is framed, what it counts, and what a request that is refused looks like instead."""

from typing import Any

import pytest
from tests.cases.case import NEVER_ENDS, THE, Body, Json, Refusal, forced
from tests.cases.conftest import Running
from tests.cases.wellformed import body_of, check_error, stream_of

pytestmark = pytest.mark.model

TWO: Body = {"prompt": ["Hello", "Once upon a time"], "n": 2, "max_tokens": 3, "stream": True, **forced(THE)}


def usage_chunks(chunks: list[Json]) -> list[Json]:
    return [chunk for chunk in chunks if not chunk["choices"]]


def test_usage_02_one_usage_chunk_for_all_choices(server: Running) -> None:
    *chunks, last = stream_of(server.post(TWO | {"stream_options": {"include_usage": True}}))
    assert last["choices"] == []
    assert (last["usage"]["prompt_tokens"], last["usage"]["completion_tokens"]) == (5, 12)
    assert last["usage"]["total_tokens"] == 17
    assert [chunk["usage"] for chunk in chunks] == [None] * len(chunks)


@pytest.mark.parametrize("options", [{"include_usage": False}, {}, None, "missing"], ids=str)
def test_usage_02_no_usage_that_was_not_asked_for(server: Running, options: Any) -> None:
    chunks = stream_of(server.post(TWO if options == "missing" else TWO | {"stream_options": options}))
    assert usage_chunks(chunks) == []
    assert not any("usage" in chunk for chunk in chunks)


def test_usage_03_running_usage_never_falls_and_ends_with_the_whole(server: Running) -> None:
    options = {"include_usage": True, "continuous_usage_stats": True}
    chunks = stream_of(server.post(TWO | {"stream_options": options}))
    counts = [chunk["usage"]["completion_tokens"] for chunk in chunks]
    assert counts == sorted(counts)
    assert counts[-1] == 12


def test_frame_01_each_choice_ends_once_and_in_its_last_chunk(server: Running) -> None:
    body = {"prompt": "Once upon a time", "n": 2, "max_tokens": 4, "stream": True, **forced(THE)}
    parts = [choice for chunk in stream_of(server.post(body)) for choice in chunk["choices"]]
    for index in (0, 1):
        own = [part for part in parts if part["index"] == index]
        assert [part["finish_reason"] for part in own] == [None] * (len(own) - 1) + ["length"]
        assert [part["logprobs"] for part in own] == [None] * len(own)
        assert "".join(part["text"] for part in own) == " the the the the"
        assert all(part["text"] != "" for part in own)


def test_frame_01_a_stop_has_a_last_chunk_without_text(server: Running) -> None:
    body = {"prompt": "A", "max_tokens": 4, "stop": "e th", "stream": True, **forced(THE)}
    parts = [choice for chunk in stream_of(server.post(body)) for choice in chunk["choices"]]
    assert [(part["text"], part["finish_reason"]) for part in parts] == [(" th", None), ("", "stop")]


@pytest.mark.parametrize(
    ("body", "expect"),
    [
        pytest.param({"prompt": "A", "max_tokens": -1}, Refusal(400, "max_tokens"), id="max_tokens"),
        pytest.param({"prompt": [49152]}, Refusal(400, "prompt"), id="token id"),
        pytest.param({"prompt": [THE] * 9000}, Refusal(400, "prompt"), id="too long"),
        pytest.param({"prompt": "A", "model": "no-such-model"}, Refusal(404, "model"), id="model"),
        pytest.param({"prompt": "A", "suffix": "x"}, Refusal(400, "suffix"), id="suffix"),
        pytest.param({"prompt": "A", "logit_bias": {"49152": 1}}, Refusal(400, "logit_bias"), id="bias"),
        pytest.param({"prompt": "A", "stop_token_ids": [49152]}, Refusal(400, "stop_token_ids"), id="stop id"),
        pytest.param({"prompt": "A", "stream_options": 5}, Refusal(400, "stream_options"), id="options"),
        pytest.param(
            {"prompt": "A", "stream_options": {"include_usage": 1}},
            Refusal(400, "stream_options.include_usage"),
            id="option",
        ),
    ],
)
def test_frame_02_what_can_be_checked_is_checked_before_the_stream(
    server: Running, body: Body, expect: Refusal
) -> None:
    assert check_error(server.post(body | {"stream": True}), expect.status)["param"] == expect.param


def test_frame_02_stream_options_without_a_stream(server: Running) -> None:
    error = check_error(server.post({"prompt": "A", "stream_options": {"include_usage": True}}), 400)
    assert error["param"] == "stream_options"


def test_frame_03_events_do_not_tell_the_length_of_their_tokens(server: Running) -> None:
    body = {"prompt": "Once", "max_tokens": 12, "seed": 1, "stream": True, "logprobs": 0, **NEVER_ENDS}
    sizes = [len(event) + 2 for event in server.post(body).content.split(b"\n\n")[:-2]]
    assert [size % 16 for size in sizes] == [0] * 12
    plain = server.post(body | {"stream_options": {"include_obfuscation": False}})
    assert not any("obfuscation" in chunk for chunk in stream_of(plain))


def test_frame_01_ids_differ_between_answers(server: Running) -> None:
    body = {"prompt": "A", "max_tokens": 1, "seed": 1}
    ids = {body_of(server.post(body))["id"], body_of(server.post(body))["id"]}
    ids.add(stream_of(server.post(body | {"stream": True}))[0]["id"])
    assert len(ids) == 3
