"""openai-python 3.x against the default model on vLLM."""

import asyncio
from collections.abc import Iterator

import openai
import pytest

# The rules that hold to the letter on every engine are the same tests.
from tests.clients.test_openai import (  # noqa: F401
    PROMPT,
    logprobs_of,
    test_a_biased_token_is_forced_or_banned,
    test_a_prompt_too_long_is_refused_with_the_limit,
    test_an_echoed_text_has_the_log_probabilities_of_the_model,
    test_best_of_returns_the_likeliest_candidate_and_bills_them_all,
)
from tests.fakes import eventually

from afterword.engine.vllm.vllm_engine import VllmEngine

pytestmark = pytest.mark.vllm

CLOSE = 1e-3
NEVER_ENDS = {"0": -100, "2": -100}


@pytest.fixture(scope="module")
def client(server: str) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{server}/v1", api_key="unused", max_retries=0) as made:
        yield made


def test_a_stream_adds_up_to_the_whole_answer_of_the_same_seed(client: openai.OpenAI) -> None:
    fields = {"model": "default", "prompt": PROMPT, "seed": 7, "max_tokens": 12, "logprobs": 2, "n": 2}
    whole = client.completions.create(**fields)  # type: ignore[call-overload]
    texts, numbers = ["", ""], [list[float | None](), list[float | None]()]
    for chunk in client.completions.create(**fields, stream=True):  # type: ignore[call-overload]
        for choice in chunk.choices:
            texts[choice.index] += choice.text
            numbers[choice.index] += logprobs_of(choice)
    assert texts == [choice.text for choice in whole.choices]
    assert texts[0] != texts[1]
    for choice in whole.choices:
        assert numbers[choice.index] == pytest.approx(logprobs_of(choice), abs=CLOSE)


def test_an_answer_without_logprobs_counts_its_tokens(client: openai.OpenAI) -> None:
    answer = client.completions.create(model="default", prompt=PROMPT, max_tokens=9, n=2, logit_bias=NEVER_ENDS)
    assert answer.usage is not None
    assert answer.usage.completion_tokens == 18
    assert answer.system_fingerprint is not None


def test_a_long_prompt_sent_again_is_found_in_the_cache(client: openai.OpenAI) -> None:
    prompt = "All work and no play makes Jack a dull boy. " * 40
    answers = [client.completions.create(model="default", prompt=prompt, max_tokens=1) for _ in range(2)]
    cached = [answer.usage.prompt_tokens_details.cached_tokens for answer in answers]  # type: ignore[union-attr]
    assert cached[0] == 0
    assert cached[1] is not None
    assert cached[1] >= 256


async def test_concurrent_requests_get_the_texts_they_get_alone(server: str) -> None:
    prompts = [f"{number} plus one is" for number in range(12)]
    async with openai.AsyncOpenAI(base_url=f"{server}/v1", api_key="unused", max_retries=0) as client:

        async def ask(prompt: str) -> str:
            answer = await client.completions.create(
                model="default", prompt=prompt, max_tokens=6, temperature=0, logprobs=1, echo=True
            )
            return answer.choices[0].text

        alone = [await ask(prompt) for prompt in prompts]
        together = await asyncio.gather(*(ask(prompt) for prompt in prompts))
    assert list(together) == alone


async def test_a_stream_that_is_left_stops_vllm(server: str, engine: VllmEngine) -> None:
    n_cancelled = engine.stats().cancelled
    async with openai.AsyncOpenAI(base_url=f"{server}/v1", api_key="unused", max_retries=0) as client:
        stream = await client.completions.create(
            model="default", prompt=PROMPT, max_tokens=2000, stream=True, logit_bias=NEVER_ENDS
        )
        await anext(aiter(stream))
        await stream.close()
    await eventually(lambda: engine.stats().cancelled == n_cancelled + 1 and engine.stats().running == 0)


def test_the_card_says_why_a_seed_promises_less(client: openai.OpenAI) -> None:
    card = client.models.retrieve("default").model_dump()
    assert card["max_model_len"] == 2048
    assert card["capabilities"]["reproducible"] is False
