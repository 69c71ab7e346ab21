"""The official Python SDK's Azure clients against a live port."""

from collections.abc import Iterator
from typing import Any

import openai
import pytest
from tests.api.served import CREATED
from tests.live import run_server

from afterword.api.app import create_app
from afterword.config.tree import ServerConfig
from afterword.engine.echo import EchoEngine
from afterword.gateway.opening import single_key_gateway
from afterword.registry import Registry, ServedModel

KEY = "k-1"
GREEDY: dict[str, Any] = {"prompt": "hello ", "max_tokens": 4, "temperature": 0}
STREAMED: dict[str, Any] = {"stream": True, "stream_options": {"include_usage": True}}


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    models = [
        ServedModel("echo", EchoEngine(), CREATED),
        ServedModel("second", EchoEngine(), CREATED, aliases=("gpt-35-turbo-instruct",), vendor="azure"),
    ]
    with run_server(create_app(Registry(models), ServerConfig(), single_key_gateway(KEY))) as running:
        yield running


def access(url: str, **more: Any) -> dict[str, Any]:
    return {"azure_endpoint": url, "api_version": "2024-10-21", "max_retries": 0} | more


@pytest.fixture
def client(url: str) -> Iterator[openai.AzureOpenAI]:
    with openai.AzureOpenAI(**access(url, api_key=KEY)) as made:
        yield made


@pytest.mark.parametrize(
    ("deployment", "model"),
    [("echo", "echo"), ("azure/second", "second"), ("gpt-35-turbo-instruct", "second")],
    ids=["name", "full name", "alias"],
)
def test_the_model_names_the_deployment(client: openai.AzureOpenAI, deployment: str, model: str) -> None:
    answer = client.completions.create(model=deployment, **GREEDY)
    assert (answer.model, answer.choices[0].text) == (model, "hell")


@pytest.mark.parametrize("deployment", ["second", "azure/second"])
def test_the_client_s_own_deployment_wins_over_the_request_s_model(url: str, deployment: str) -> None:
    with openai.AzureOpenAI(**access(url, api_key=KEY, azure_deployment=deployment)) as client:
        answer = client.completions.create(model="echo", **GREEDY)
        models = [model.id for model in client.models.list()]
    assert answer.model == "second"
    assert models == ["echo", "second"]


def test_a_stream_gives_the_text_and_then_the_usage(client: openai.AzureOpenAI) -> None:
    *chunks, last = client.completions.create(model="second", **GREEDY, **STREAMED)
    assert "".join(chunk.choices[0].text for chunk in chunks) == "hell"
    assert chunks[-1].choices[0].finish_reason == "length"
    assert (last.choices, last.usage.total_tokens) == ([], 10)


async def test_the_asynchronous_client(url: str) -> None:
    async with openai.AsyncAzureOpenAI(**access(url, api_key=KEY)) as client:
        whole = await client.completions.create(model="azure/second", **GREEDY)
        stream = await client.completions.create(model="azure/second", **GREEDY, stream=True)
        texts = [chunk.choices[0].text async for chunk in stream]
    assert whole.choices[0].text == "".join(texts) == "hell"


def test_a_token_of_entra_id_is_taken_as_the_key(url: str) -> None:
    with openai.AzureOpenAI(**access(url, azure_ad_token=KEY)) as client:
        assert client.completions.create(model="echo", **GREEDY).choices[0].text == "hell"


def test_the_newer_route_without_deployments_takes_the_plain_client(url: str) -> None:
    with openai.OpenAI(base_url=f"{url}/openai/v1/", default_query={"api-version": "preview"}, api_key=KEY) as client:
        answer = client.completions.create(model="azure/second", **GREEDY)
        models = [model.id for model in client.models.list()]
        found = client.models.retrieve("azure/second").id
    assert (answer.model, answer.choices[0].text) == ("second", "hell")
    assert (models, found) == (["echo", "second"], "second")


def test_models_are_found(client: openai.AzureOpenAI) -> None:
    assert [model.id for model in client.models.list()] == ["echo", "second"]
    assert client.models.retrieve("azure/second").id == "second"


@pytest.mark.parametrize("stream", [False, True])
def test_errors_become_the_exceptions_of_the_sdk(client: openai.AzureOpenAI, stream: bool) -> None:
    with pytest.raises(openai.BadRequestError) as refused:
        client.completions.create(model="echo", prompt="hi", logprobs=101, stream=stream)
    assert refused.value.param == "logprobs"
    with pytest.raises(openai.NotFoundError):
        client.completions.create(model="gone", prompt="hi", stream=stream)
    with pytest.raises(openai.AuthenticationError):
        client.with_options(api_key="wrong").completions.create(model="echo", prompt="hi", stream=stream)
