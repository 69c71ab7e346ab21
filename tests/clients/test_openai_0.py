"""openai-python 0.28.1, the last of its kind: code of 2023 still runs on it, as does its command line."""

from typing import Any

import pytest
from tests.clients.conftest import OpenClient
from tests.clients.reference import Reference
from tests.clients.running import Client

pytestmark = pytest.mark.model

PROMPT = "One, two, three, four, five,"
MODEL = "smollm2-135m-instruct"


@pytest.fixture(scope="module")
def client(open_client: OpenClient) -> Client:
    return open_client("openai-0")


@pytest.fixture(scope="module")
def seen(client: Client, server: str) -> Any:
    """What the client's program understood of the server's answers."""
    return client.run("openai_0", server)


def test_the_model_and_the_engine_route_give_the_same_completion(seen: Any, reference: Reference) -> None:
    text = reference.text(PROMPT, 6)
    for answer in (seen["whole"], seen["engine"]):
        assert answer["object"] == "text_completion"
        assert answer["model"] == MODEL
        assert answer["choices"][0]["text"] == text
    assert seen["engine"]["choices"] == seen["whole"]["choices"]
    assert seen["engine"]["usage"]["total_tokens"] == seen["whole"]["usage"]["total_tokens"]
    assert seen["awaited"] == text


def test_the_chunks_of_a_stream_add_up_to_the_whole_answer(seen: Any) -> None:
    [whole] = seen["whole"]["choices"]
    choices = [chunk["choices"][0] for chunk in seen["chunks"]]
    assert "".join(choice["text"] for choice in choices) == whole["text"]
    assert "".join(seen["awaited stream"]) == whole["text"]
    for name in ("tokens", "token_logprobs", "top_logprobs", "text_offset"):
        assert [entry for choice in choices for entry in choice["logprobs"][name]] == whole["logprobs"][name]
    assert [choice["finish_reason"] for choice in choices] == [None] * (len(choices) - 1) + ["length"]


def test_offsets_count_from_the_start_of_a_prompt_that_is_not_echoed(seen: Any) -> None:
    [whole] = seen["whole"]["choices"]
    assert whole["logprobs"]["text_offset"][0] == len(PROMPT)
    assert seen["whole"]["usage"]["completion_tokens"] == len(whole["logprobs"]["tokens"]) == 6


def test_choices_of_a_batch_come_prompt_by_prompt(seen: Any) -> None:
    choices = seen["batch"]["choices"]
    assert [(choice["index"], choice["text"][0]) for choice in choices] == [(0, "A"), (1, "A"), (2, "B"), (3, "B")]


def test_refusals_become_the_exceptions_of_the_sdk(seen: Any) -> None:
    assert seen["refused"] == [["InvalidRequestError", 400, "temperature"], ["InvalidRequestError", 400, "best_of"]]
    assert seen["models"] == [MODEL]


@pytest.mark.parametrize("options", [[], ["--stream"]], ids=["whole", "stream"])
def test_its_command_line_prints_the_completion(
    client: Client, server: str, reference: Reference, options: list[str]
) -> None:
    out = client.command(
        *["openai", "-k", "unused", "-b", f"{server}/v1", "api", "completions.create", "-m", "default"],
        *["-p", PROMPT, "-M", "6", "-t", "0", "--logprobs", "2", *options],
    )
    assert reference.text(PROMPT, 6) in out
