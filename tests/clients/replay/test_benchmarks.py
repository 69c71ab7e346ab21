"""Load generators: they count tokens from usage chunks and insist on the length they asked for."""

import pytest
from tests.clients.replay.wire import Json, Wire, stream_of

# The echo model repeats the prompt, so without `ignore_eos` it would end after two characters.
ENDS_EARLY = "ab<|endoftext|>cd"


def test_vllm_bench_reads_usage_from_the_chunk_without_choices(wire: Wire) -> None:
    body: Json = {
        "model": "echo",
        "prompt": ENDS_EARLY,
        "repetition_penalty": 1.0,
        "max_tokens": 12,
        "logprobs": None,
        "stream": True,
        "stream_options": {"include_usage": True},
        "ignore_eos": True,
        "temperature": 0.0,
        "top_p": None,
        "top_k": None,
        "min_p": None,
        "frequency_penalty": None,
        "presence_penalty": None,
    }
    response = wire.post(body, **{"x-request-id": "bench-1"})
    assert response.headers["x-request-id"] == "bench-1"
    chunks = stream_of(response)
    with_choices = [chunk for chunk in chunks if chunk.get("choices")]
    usages = [chunk["usage"] for chunk in chunks if not chunk.get("choices")]
    assert with_choices[0]["choices"][0]["text"] == "a"
    assert [(usage["prompt_tokens"], usage["completion_tokens"]) for usage in usages] == [(5, 12)]


@pytest.mark.parametrize("prompt", [[97, 98, 99], "abc"], ids=["tokens", "text"])
def test_vllm_bench_sends_tokens_or_text(wire: Wire, prompt: object) -> None:
    body: Json = {"model": "echo", "prompt": prompt, "max_tokens": 3, "temperature": 0, "stream": True}
    assert "".join(chunk["choices"][0]["text"] for chunk in stream_of(wire.post(body))) == "abc"


def test_sglang_bench_finds_a_choice_in_every_chunk(wire: Wire) -> None:
    body: Json = {
        "model": "echo",
        "prompt": ENDS_EARLY,
        "temperature": 0.0,
        "best_of": 1,
        "max_tokens": 7,
        "stream": True,
        "ignore_eos": True,
    }
    chunks = stream_of(wire.post(body))
    # The end-of-text token has no text, and so no chunk.
    assert [chunk["choices"][0]["text"] for chunk in chunks] == ["a", "b", "c", "d", "a", "b"]
    assert all("usage" not in chunk for chunk in chunks)


def test_sglang_bench_counts_from_running_usage(wire: Wire) -> None:
    body: Json = {
        "model": "echo",
        "prompt": "abc",
        "temperature": 0.0,
        "best_of": 1,
        "max_tokens": 3,
        "stream": True,
        "stream_options": {"continuous_usage_stats": True},
        "logprobs": 1,
    }
    chunks = stream_of(wire.post(body))
    assert [chunk["usage"]["completion_tokens"] for chunk in chunks] == [1, 2, 3]
    assert [len(chunk["choices"][0]["logprobs"]["tokens"]) for chunk in chunks] == [1, 1, 1]
