"""Chunks and bodies, byte for byte."""

import json
import re
from typing import Any

import pytest
from tests.api.builders import HEAD, completion, delta, echo_hi, token

from afterword.api.render import BodyRenderer, ChunkRenderer, new_head
from afterword.completions.assemble import Choice
from afterword.completions.counting import Usage
from afterword.tokens import ByteTokenizer

USAGE = Usage(prompt_tokens=2, completion_tokens=3, cached_tokens=1)
USAGE_JSON = (
    '{"prompt_tokens":2,"completion_tokens":3,"total_tokens":5,'
    '"prompt_tokens_details":{"cached_tokens":1,"audio_tokens":0},'
    '"completion_tokens_details":{"reasoning_tokens":0,"audio_tokens":0,'
    '"accepted_prediction_tokens":0,"rejected_prediction_tokens":0}}'
)
BEFORE = 'data: {"id":"cmpl-x","object":"text_completion","created":1700000000,"choices":['
AFTER = '],"model":"m","system_fingerprint":"fp_0123456789"'


def chunks(**changes: Any) -> ChunkRenderer:
    return ChunkRenderer(HEAD, completion(**changes), ByteTokenizer())


def parsed(event: bytes) -> dict[str, Any]:
    assert event.startswith(b"data: ")
    assert event.endswith(b"\n\n")
    assert event.count(b"\n") == 2
    found: dict[str, Any] = json.loads(event[6:])
    return found


def test_a_plain_chunk_byte_for_byte() -> None:
    expected = BEFORE + '{"text":" \\u2028\\"","index":0,"logprobs":null,"finish_reason":null}' + AFTER + "}\n\n"
    assert chunks().chunk(delta(' \u2028"'), None) == expected.encode()


def test_the_end_of_a_choice_byte_for_byte() -> None:
    expected = BEFORE + '{"text":"","index":3,"logprobs":null,"finish_reason":"stop"}' + AFTER + "}\n\n"
    assert chunks(n=4).chunk(delta("", index=3, finish_reason="stop"), None) == expected.encode()


def test_the_end_of_a_choice_has_empty_arrays_if_logprobs_were_asked_for() -> None:
    end = parsed(chunks(logprobs=2).chunk(delta("", finish_reason="stop"), None))
    assert end["choices"][0]["logprobs"] == {
        "tokens": [],
        "token_logprobs": [],
        "top_logprobs": [],
        "text_offset": [],
    }


def test_tokens_kept_for_ranking_are_not_shown_unless_asked_for() -> None:
    event = parsed(chunks().chunk(delta("a", tokens=(token("a", -0.5, {}),)), None))
    assert event["choices"][0]["logprobs"] is None


def test_an_echoed_prompt_comes_whole_in_one_chunk() -> None:
    event = parsed(chunks(logprobs=1, echo=True).chunk(delta("hi", echo=echo_hi()), None))
    assert event["choices"][0]["text"] == "hi"
    assert event["choices"][0]["logprobs"]["tokens"] == ["h", "i"]


@pytest.mark.parametrize(
    ("include_usage", "continuous", "expected"),
    [
        pytest.param(False, False, "}", id="none"),
        pytest.param(True, False, ',"usage":null}', id="include_usage"),
        pytest.param(True, True, ',"usage":' + USAGE_JSON + "}", id="both"),
        pytest.param(False, True, ',"usage":' + USAGE_JSON + "}", id="continuous_usage_stats"),
    ],
)
def test_usage_in_a_chunk(include_usage: bool, continuous: bool, expected: str) -> None:
    event = chunks(include_usage=include_usage, continuous_usage=continuous).chunk(
        delta("a"), USAGE if continuous else None
    )
    assert event.decode().partition(AFTER)[2] == expected + "\n\n"


def test_the_usage_chunk_has_no_choices() -> None:
    expected = BEFORE + AFTER + ',"usage":' + USAGE_JSON + "}\n\n"
    assert chunks(include_usage=True).usage(USAGE) == expected.encode()


def test_no_chunk_has_an_error_key() -> None:
    renderer = chunks(logprobs=1, include_usage=True)
    for event in (renderer.chunk(delta("a"), None), renderer.usage(USAGE)):
        assert b'"error"' not in event


@pytest.mark.parametrize("text", ["x" * n for n in range(33)] + ["é", "\u2028"])
def test_obfuscation_fills_events_to_the_next_sixteen_bytes(text: str) -> None:
    plain = chunks().chunk(delta(text), None)
    event = chunks(include_obfuscation=True).chunk(delta(text), None)
    padding = parsed(event)["obfuscation"]
    assert len(event) % 16 == 0
    assert re.fullmatch("[A-Za-z0-9]{0,15}", padding)
    assert event == plain.replace(b"}\n\n", b',"obfuscation":"%b"}\n\n' % padding.encode())


def test_obfuscation_is_random() -> None:
    renderer = chunks(include_obfuscation=True)
    longest = max(
        (delta("x" * n) for n in range(16)), key=lambda d: len(parsed(renderer.chunk(d, None))["obfuscation"])
    )
    assert len({parsed(renderer.chunk(longest, None))["obfuscation"] for _ in range(8)}) == 8


def test_the_usage_chunk_is_obfuscated_too() -> None:
    event = chunks(include_obfuscation=True, include_usage=True).usage(USAGE)
    assert len(event) % 16 == 0
    assert list(parsed(event))[-1] == "obfuscation"


def test_prompt_logprobs_come_with_the_delta_that_has_them() -> None:
    renderer = chunks(prompt_logprobs=0)
    first = parsed(renderer.chunk(delta("", prompt_scores=echo_hi()), None))["choices"][0]
    assert list(first) == ["text", "index", "logprobs", "finish_reason", "prompt_logprobs"]
    assert first["prompt_logprobs"] == [None, {"105": {"logprob": -1.5, "rank": 1, "decoded_token": "i"}}]
    assert "prompt_logprobs" not in parsed(renderer.chunk(delta("a"), None))["choices"][0]


def test_token_ids_are_in_every_chunk_and_the_prompt_s_in_the_first() -> None:
    renderer = chunks(return_token_ids=True)
    first = parsed(renderer.chunk(delta("", prompt_ids=(104, 105)), None))["choices"][0]
    assert list(first) == ["text", "index", "logprobs", "finish_reason", "prompt_token_ids", "token_ids"]
    assert (first["logprobs"], first["prompt_token_ids"], first["token_ids"]) == (None, [104, 105], [])
    second = parsed(renderer.chunk(delta("a", tokens=(token("a", -0.5, {}),)), None))["choices"][0]
    assert (second["logprobs"], second["prompt_token_ids"], second["token_ids"]) == (None, None, [97])


def choice(**changes: Any) -> Choice:
    fields: dict[str, Any] = {
        "index": 0,
        "text": "a\u2029",
        "echo": None,
        "tokens": (),
        "finish_reason": "length",
        "prompt_scores": None,
    }
    return Choice(**(fields | changes))


def test_a_body_byte_for_byte() -> None:
    body = BodyRenderer(HEAD, completion(stream=False), ByteTokenizer()).body([choice()], USAGE)
    assert body.decode() == (
        '{"id":"cmpl-x","object":"text_completion","created":1700000000,"model":"m",'
        '"system_fingerprint":"fp_0123456789","choices":['
        '{"text":"a\\u2029","index":0,"logprobs":null,"finish_reason":"length"}],"usage":' + USAGE_JSON + "}"
    )


def test_a_body_with_everything_asked_for() -> None:
    asked = completion(logprobs=1, echo=True, prompt_logprobs=1)
    whole = choice(text="hia", echo=echo_hi(), tokens=(token("a", -0.5, {"a": -0.5}),), prompt_scores=echo_hi())
    shown = json.loads(BodyRenderer(HEAD, asked, ByteTokenizer()).body([whole], USAGE))["choices"][0]
    assert shown["logprobs"]["token_logprobs"] == [None, -1.5, -0.5]
    assert shown["logprobs"]["top_logprobs"] == [None, {"a": -0.5, "i": -1.5}, {"a": -0.5}]
    assert list(shown["prompt_logprobs"][1]) == ["105", "97"]


def test_a_body_with_the_ids_of_its_tokens() -> None:
    asked = completion(return_token_ids=True)
    whole = choice(tokens=(token("a", -0.5, {}),), prompt_ids=(104, 105))
    shown = json.loads(BodyRenderer(HEAD, asked, ByteTokenizer()).body([whole], USAGE))["choices"][0]
    assert (shown["logprobs"], shown["prompt_token_ids"], shown["token_ids"]) == (None, [104, 105], [97])


def test_every_answer_has_an_id_of_its_own() -> None:
    ids = {new_head("m", "fp_0123456789").id for _ in range(20)}
    assert len(ids) == 20
    assert all(re.fullmatch("cmpl-[A-Za-z0-9]{29}", one) for one in ids)
