"""openai-python 3.x against the default model: what only real tokens and real numbers show.

The shapes of answers, errors and streams are in `tests/api/test_sdk.py`.
"""

import asyncio
import math
from collections.abc import Iterator

import openai
import pytest
from openai.types import CompletionChoice
from tests.clients.reference import Reference

pytestmark = pytest.mark.model

PROMPT = "The café on the corner sells"


@pytest.fixture(scope="module")
def client(server: str) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{server}/v1", api_key="unused", max_retries=0) as made:
        yield made


def logprobs_of(choice: CompletionChoice) -> list[float | None]:
    assert choice.logprobs is not None
    values: list[float | None] = list(choice.logprobs.token_logprobs or [])
    return values


def test_an_echoed_text_has_the_log_probabilities_of_the_model(client: openai.OpenAI, reference: Reference) -> None:
    ids = reference.tokens(PROMPT)
    answers = [
        client.completions.create(model="default", prompt=prompt, echo=True, logprobs=3, max_tokens=0)
        for prompt in (PROMPT, ids, [ids])
    ]
    for answer in answers:
        [choice] = answer.choices
        assert choice.logprobs is not None
        first, *rest = logprobs_of(choice)
        assert first is None
        assert rest == pytest.approx(reference.logprobs(ids), abs=1e-6)
        assert choice.text == PROMPT == "".join(choice.logprobs.tokens or [])
        tops = choice.logprobs.top_logprobs
        assert tops is not None
        assert tops[0] is None
        assert all(3 <= len(top) <= 4 for top in tops[1:])
        assert answer.usage is not None
        assert (answer.usage.prompt_tokens, answer.usage.completion_tokens) == (len(ids), 0)


def test_a_stream_adds_up_to_the_whole_answer_of_the_same_seed(client: openai.OpenAI) -> None:
    fields = {"model": "default", "prompt": PROMPT, "seed": 7, "max_tokens": 12, "logprobs": 2, "n": 2}
    whole = client.completions.create(**fields)  # type: ignore[call-overload]
    texts, numbers = ["", ""], [list[float | None](), list[float | None]()]
    usage = None
    stream = client.completions.create(  # type: ignore[call-overload]
        **fields, stream=True, stream_options={"include_usage": True}
    )
    for chunk in stream:
        usage = chunk.usage
        for choice in chunk.choices:
            texts[choice.index] += choice.text
            numbers[choice.index] += logprobs_of(choice)
    assert texts == [choice.text for choice in whole.choices]
    assert numbers == [logprobs_of(choice) for choice in whole.choices]
    assert texts[0] != texts[1]
    assert usage is not None
    assert usage.completion_tokens == whole.usage.completion_tokens


def test_best_of_returns_the_likeliest_candidate_and_bills_them_all(client: openai.OpenAI) -> None:
    fields = {"model": "default", "prompt": PROMPT, "seed": 3, "max_tokens": 8, "logprobs": 0}
    every = client.completions.create(**fields, n=4)  # type: ignore[call-overload]
    best = client.completions.create(**fields, n=1, best_of=4)  # type: ignore[call-overload]

    def mean(choice: CompletionChoice) -> float:
        values = [value for value in logprobs_of(choice) if value is not None]
        return math.fsum(values) / len(values)

    assert best.choices[0].text == max(every.choices, key=mean).text
    assert best.usage.completion_tokens == every.usage.completion_tokens


def test_a_biased_token_is_forced_or_banned(client: openai.OpenAI, reference: Reference) -> None:
    [token] = reference.tokens(" seven")
    [usual, *_] = reference.tokens(reference.text(PROMPT, 1))
    forced, banned = (
        client.completions.create(model="default", prompt=PROMPT, max_tokens=1, temperature=0, logit_bias=bias)
        for bias in ({str(token): 100}, {str(usual): -100})
    )
    assert forced.choices[0].text == " seven"
    assert banned.choices[0].text != reference.text(PROMPT, 1)


def test_a_prompt_too_long_is_refused_with_the_limit(client: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError, match="maximum context length is 2048 tokens") as refused:
        client.completions.create(model="default", prompt="word " * 2100, max_tokens=1)
    assert refused.value.code == "context_length_exceeded"


async def test_concurrent_requests_get_the_answers_they_get_alone(server: str) -> None:
    prompts = [f"{number} plus one is" for number in range(12)]
    async with openai.AsyncOpenAI(base_url=f"{server}/v1", api_key="unused", max_retries=0) as client:

        async def ask(prompt: str) -> tuple[str, list[float | None]]:
            answer = await client.completions.create(
                model="default", prompt=prompt, max_tokens=6, seed=5, logprobs=1, echo=True
            )
            return answer.choices[0].text, logprobs_of(answer.choices[0])

        alone = [await ask(prompt) for prompt in prompts]
        together = await asyncio.gather(*(ask(prompt) for prompt in prompts))
    assert list(together) == alone
