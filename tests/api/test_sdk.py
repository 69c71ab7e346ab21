"""The official Python SDK against a live port."""

from collections.abc import Iterator

import openai
import pytest
from tests.api.served import app_of
from tests.live import run_server

KEY = "k-1"


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with run_server(app_of(api_key=KEY)) as running:
        yield running


@pytest.fixture
def client(url: str) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{url}/v1", api_key=KEY, max_retries=0) as made:
        yield made


def test_a_completion_has_every_field(client: openai.OpenAI) -> None:
    answer = client.completions.create(model="echo", prompt="hello ", max_tokens=4, temperature=0, logprobs=2)
    [choice] = answer.choices
    assert (choice.text, choice.finish_reason, choice.index) == ("hell", "length", 0)
    assert choice.logprobs is not None
    assert choice.logprobs.tokens == list("hell")
    assert choice.logprobs.text_offset == [6, 7, 8, 9]
    assert answer.object == "text_completion"
    assert answer.usage is not None
    assert answer.usage.total_tokens == 10
    assert answer.usage.completion_tokens_details is not None
    assert answer.usage.completion_tokens_details.reasoning_tokens == 0
    assert answer._request_id is not None


def test_a_stream_gives_the_text_and_then_the_usage(client: openai.OpenAI) -> None:
    stream = client.completions.create(
        model="echo",
        prompt="hello ",
        max_tokens=4,
        temperature=0,
        stream=True,
        stream_options={"include_usage": True},
    )
    *chunks, last = list(stream)
    assert "".join(chunk.choices[0].text for chunk in chunks) == "hell"
    assert [chunk.choices[0].finish_reason for chunk in chunks] == [None, None, None, "length"]
    assert last.choices == []
    assert last.usage is not None
    assert last.usage.completion_tokens == 4


async def test_the_asynchronous_client(url: str) -> None:
    async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key=KEY, max_retries=0) as client:
        answer = await client.completions.create(model="echo", prompt=["a", "b"], n=2, max_tokens=1, temperature=0)
        stream = await client.completions.create(model="echo", prompt="hi", max_tokens=2, temperature=0, stream=True)
        texts = [chunk.choices[0].text async for chunk in stream]
    assert [(choice.index, choice.text) for choice in answer.choices] == [(0, "a"), (1, "a"), (2, "b"), (3, "b")]
    assert texts == ["h", "i"]


def test_models_are_found(client: openai.OpenAI) -> None:
    assert [model.id for model in client.models.list()] == ["echo"]
    assert [client.models.retrieve(name).id for name in ("echo", "default", "local/echo")] == ["echo"] * 3


@pytest.mark.parametrize("stream", [False, True])
def test_errors_become_the_exceptions_of_the_sdk(client: openai.OpenAI, stream: bool) -> None:
    with pytest.raises(openai.BadRequestError) as refused:
        client.completions.create(model="echo", prompt="hi", temperature=3, stream=stream)
    assert (refused.value.param, refused.value.code) == ("temperature", "decimal_above_max_value")
    with pytest.raises(openai.NotFoundError):
        client.completions.create(model="gone", prompt="hi", stream=stream)
    with pytest.raises(openai.AuthenticationError):
        client.with_options(api_key="wrong").completions.create(model="echo", prompt="hi", stream=stream)
