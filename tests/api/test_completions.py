"""The completions routes in process: answers, their headers, and the models they go to."""

import re
from typing import Any

import pytest
from tests.api.folding import chunks_of, fold
from tests.api.requests import GREEDY, REQUESTS
from tests.api.served import app_of, assert_error, client_of, full_engine

from afterword.engine.echo import EchoEngine


def shown(body: dict[str, Any]) -> dict[str, Any]:
    """What must not depend on how the answer was sent."""
    return {"choices": body["choices"], "usage": body["usage"]}


@pytest.mark.parametrize("request_body", REQUESTS)
async def test_the_fold_of_the_stream_is_the_plain_body(request_body: dict[str, Any]) -> None:
    asked = {"seed": 1} | request_body
    async with client_of(app_of()) as client:
        plain = await client.post("/v1/completions", json=asked)
        streaming = asked | {"stream": True, "stream_options": {"include_usage": True}}
        stream = await client.post("/v1/completions", json=streaming)
    assert plain.status_code == stream.status_code == 200, plain.text + stream.text
    assert fold(chunks_of(stream.text)) == shown(plain.json())


async def test_a_plain_answer_from_end_to_end() -> None:
    async with client_of(app_of()) as client:
        response = await client.post("/v1/completions", json=GREEDY)
    body = response.json()
    assert response.headers["content-type"] == "application/json"
    assert list(body) == ["id", "object", "created", "model", "system_fingerprint", "choices", "usage"]
    assert re.fullmatch("cmpl-[A-Za-z0-9]{29}", body["id"])
    assert re.fullmatch("fp_[0-9a-f]{10}", body["system_fingerprint"])
    assert body["choices"] == [{"text": "hell", "index": 0, "logprobs": None, "finish_reason": "length"}]
    assert [body["usage"][f"{part}_tokens"] for part in ("prompt", "completion", "total")] == [6, 4, 10]


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({}, id="length"),
        pytest.param({"stop": "lo"}, id="stop"),
        pytest.param({"stop": "lo", "include_stop_str_in_output": True}, id="stop in the text"),
        pytest.param({"logit_bias": {"256": 100}}, id="end of text"),
        pytest.param({"n": 2, "best_of": 3, "temperature": 1}, id="best_of"),
        pytest.param({"prompt": [104, 101], "truncate_prompt_tokens": 1}, id="truncated"),
    ],
)
async def test_token_ids_are_those_of_the_listed_tokens(fields: dict[str, Any]) -> None:
    asked = {"prompt": "hello ", "temperature": 0, "seed": 1, "return_token_ids": True} | fields
    named = {"logprobs": 0, "return_tokens_as_token_ids": True}
    async with client_of(app_of()) as client:
        choices = (await client.post("/v1/completions", json=asked)).json()["choices"]
        listing = (await client.post("/v1/completions", json=asked | named)).json()["choices"]
    prompt = [101] if "prompt" in fields else list(b"hello ")
    for choice, listed in zip(choices, listing, strict=True):
        assert [f"token_id:{token}" for token in choice["token_ids"]] == listed["logprobs"]["tokens"]
        assert (choice["prompt_token_ids"], choice["logprobs"]) == (prompt, None)
        assert (listed["prompt_token_ids"], listed["token_ids"]) == (prompt, choice["token_ids"])


async def test_the_best_beams_are_the_choices() -> None:
    asked = {"prompt": "hello ", "max_tokens": 3, "use_beam_search": True, "best_of": 4, "n": 2, "logprobs": 0}
    async with client_of(app_of()) as client:
        body = (await client.post("/v1/completions", json=asked)).json()
        all_of_them = (await client.post("/v1/completions", json=asked | {"n": 4})).json()
        streamed = await client.post("/v1/completions", json=asked | {"n": 4, "stream": True})
    choices = body["choices"]
    assert choices[0]["text"] == "hel"
    sums = [sum(choice["logprobs"]["token_logprobs"]) for choice in all_of_them["choices"]]
    assert sums == sorted(sums, reverse=True)
    assert len(set(sums)) == 4
    assert choices == all_of_them["choices"][:2]
    assert body["usage"]["completion_tokens"] == 12
    texts = ["", "", "", ""]
    for chunk in chunks_of(streamed.text):
        texts[chunk["choices"][0]["index"]] += chunk["choices"][0]["text"]
    assert texts == [choice["text"] for choice in all_of_them["choices"]]


async def test_guidance_mixes_what_two_prompts_say() -> None:
    asked = GREEDY | {"prompt": "hello ", "negative_prompt": "hello ", "guidance_scale": 3, "logprobs": 1}
    async with client_of(app_of()) as client:
        same = (await client.post("/v1/completions", json=asked)).json()
        other = (
            await client.post("/v1/completions", json=asked | {"negative_prompt": "jolly ", "guidance_scale": 0})
        ).json()
        plain = (await client.post("/v1/completions", json=GREEDY | {"prompt": "hello ", "logprobs": 1})).json()
    assert same["choices"] == plain["choices"]
    assert other["choices"][0]["text"] == "joll"
    assert (plain["usage"]["prompt_tokens"], same["usage"]["prompt_tokens"]) == (6, 12)


async def test_named_tokens_are_listed_in_place_of_the_likeliest() -> None:
    asked = GREEDY | {"logprobs": 2, "echo": True, "prompt_logprobs": 1, "logprob_token_ids": [97, 104, 97]}
    async with client_of(app_of()) as client:
        named = (await client.post("/v1/completions", json=asked)).json()["choices"][0]
        everything = asked | {"logprobs": 100, "logprob_token_ids": []}
        whole = (await client.post("/v1/completions", json=everything)).json()["choices"][0]["logprobs"]
    assert named["logprobs"]["top_logprobs"][0] is None
    for place, tops in list(enumerate(named["logprobs"]["top_logprobs"]))[1:]:
        assert set(tops) == {"a", "h", named["logprobs"]["tokens"][place]}
        for name, value in tops.items():
            assert value == whole["top_logprobs"][place].get(name, value)
    entries = named["prompt_logprobs"][1]
    assert list(entries) == ["101", "97", "104"]
    assert {entry["rank"] for entry in entries.values()} == {None}


@pytest.mark.parametrize(
    "how", [{"use_beam_search": True, "best_of": 2}, {"negative_prompt": "x", "guidance_scale": 2}]
)
async def test_named_tokens_are_listed_by_beam_search_and_with_guidance(how: dict[str, Any]) -> None:
    asked = GREEDY | how | {"logprobs": 0, "logprob_token_ids": [122]}
    async with client_of(app_of()) as client:
        logprobs = (await client.post("/v1/completions", json=asked)).json()["choices"][0]["logprobs"]
    assert all("z" in tops for tops in logprobs["top_logprobs"])


async def test_all_chunks_of_a_stream_share_their_head() -> None:
    async with client_of(app_of()) as client:
        response = await client.post("/v1/completions", json=GREEDY | {"stream": True, "n": 2})
    assert response.headers["content-type"] == "text/event-stream"
    chunks = chunks_of(response.text)
    assert len({(c["id"], c["created"], c["model"], c["system_fingerprint"]) for c in chunks}) == 1
    assert {tuple(c) for c in chunks} == {
        ("id", "object", "created", "choices", "model", "system_fingerprint", "obfuscation")
    }


@pytest.mark.parametrize("logprobs", [0, 1])
async def test_a_chunk_has_one_token_at_most_if_logprobs_are_asked_for(logprobs: int) -> None:
    asked = {"prompt": "hello ", "temperature": 0, "stop": ["lol"], "logprobs": logprobs, "stream": True}
    async with client_of(app_of()) as client:
        response = await client.post("/v1/completions", json=asked)
    counts = [len(chunk["choices"][0]["logprobs"]["tokens"]) for chunk in chunks_of(response.text)]
    assert max(counts) == 1
    assert sum(counts) == 16


async def test_obfuscation_is_on_by_default_and_can_be_turned_off() -> None:
    async with client_of(app_of()) as client:
        padded = await client.post("/v1/completions", json=GREEDY | {"stream": True})
        options = {"include_obfuscation": False}
        bare = await client.post("/v1/completions", json=GREEDY | {"stream": True, "stream_options": options})
    *events, done = padded.text.split("\n\n")[:-1]
    assert done == "data: [DONE]"
    assert [len(event.encode()) % 16 for event in events] == [14] * len(events)
    assert "obfuscation" not in bare.text


async def test_running_usage_counts_up() -> None:
    options = {"include_usage": True, "continuous_usage_stats": True}
    async with client_of(app_of()) as client:
        response = await client.post("/v1/completions", json=GREEDY | {"stream": True, "stream_options": options})
    counts = [chunk["usage"]["completion_tokens"] for chunk in chunks_of(response.text)]
    assert counts == sorted(counts)
    assert counts[-2:] == [4, 4]


@pytest.mark.parametrize(
    ("path", "body_model", "expected"),
    [
        pytest.param("/v1/completions", None, "echo", id="default"),
        pytest.param("/v1/completions", " ", "echo", id="blank"),
        pytest.param("/v1/completions", "default", "echo", id="alias"),
        pytest.param("/v1/completions/", "vendor/second", "vendor/second", id="trailing slash"),
        pytest.param("/v1/engines/vendor/second/completions", None, "vendor/second", id="engine"),
        pytest.param("/v1/engines/echo/completions", "vendor/second", "echo", id="path over body"),
        pytest.param("/openai/deployments/echo/completions?api-version=2024-02-01", "gpt", "echo", id="deployment"),
    ],
)
async def test_which_model_answers(path: str, body_model: str | None, expected: str) -> None:
    async with client_of(app_of(EchoEngine(), EchoEngine())) as client:
        response = await client.post(path, json=GREEDY | {"model": body_model})
    assert response.status_code == 200
    assert response.json()["model"] == expected
    assert response.headers["openai-model"] == expected


@pytest.mark.parametrize("path", ["/v1/completions", "/v1/engines/gone/completions"])
async def test_an_unknown_model_is_404(path: str) -> None:
    async with client_of(app_of()) as client:
        response = await client.post(path, json={"model": "gone"})
    assert "gone" in assert_error(response, 404, "model", "model_not_found")["message"]


async def test_the_content_type_does_not_matter() -> None:
    async with client_of(app_of()) as client:
        response = await client.post("/v1/completions", content=b'{"prompt": "hi"}', headers={"content-type": "x/y"})
    assert response.status_code == 200


@pytest.mark.parametrize("stream", [False, True])
async def test_a_refusal_is_a_plain_error_also_for_streams(stream: bool) -> None:
    async with client_of(app_of(full_engine())) as client:
        refused = await client.post("/v1/completions", json={"prompt": ["a", "b"], "stream": stream})
        wrong = await client.post("/v1/completions", json={"temperature": 3, "stream": stream})
    assert_error(refused, 503, None, "overloaded")
    assert int(refused.headers["retry-after"]) >= 1
    assert_error(wrong, 400, "temperature", "decimal_above_max_value")


async def test_a_context_overrun_names_its_numbers() -> None:
    async with client_of(app_of(EchoEngine(context=32))) as client:
        response = await client.post("/v1/completions", json={"prompt": "x" * 20, "max_tokens": 13})
        fits = await client.post("/v1/completions", json={"prompt": "x" * 20, "max_tokens": 12})
    message = assert_error(response, 400, "max_tokens", "context_length_exceeded")["message"]
    assert "maximum context length is 32 tokens" in message
    assert fits.status_code == 200


async def test_a_long_prompt_is_completed_like_a_short_one() -> None:
    async with client_of(app_of(EchoEngine(context=30_000))) as client:
        response = await client.post("/v1/completions", json=GREEDY | {"prompt": "ab" * 12_000})
    assert response.json()["choices"][0]["text"] == "abab"


async def test_limits_of_the_settings_hold() -> None:
    async with client_of(app_of(max_logprobs=3, max_candidates=4)) as client:
        logprobs = await client.post("/v1/completions", json={"logprobs": 4})
        candidates = await client.post("/v1/completions", json={"prompt": ["a", "b", "c"], "n": 2})
        unknown = await client.post("/v1/completions", json={"unheard_of": 1})
    assert logprobs.status_code == candidates.status_code == 400
    assert unknown.status_code == 200


async def test_strict_servers_refuse_unknown_fields() -> None:
    async with client_of(app_of(strict=True)) as client:
        response = await client.post("/v1/completions", json={"unheard_of": 1})
    assert response.status_code == 400
