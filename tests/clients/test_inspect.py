"""Inspect AI: perplexity from `prompt_logprobs`, through both of its providers for the Completions API."""

import math
from typing import Any

import pytest
from tests.clients.conftest import OpenClient
from tests.clients.reference import Reference

pytestmark = [pytest.mark.clients, pytest.mark.model]

TEXTS = ["The harbour was quiet in the early morning.", "Grüße 🙂 aus Köln"]
PROVIDERS = ["openai-api-completions/own/default", "vllm-completions/default"]


@pytest.fixture(scope="module")
def seen(open_client: OpenClient, server: str) -> Any:
    """Scores and usage by provider."""
    return open_client("inspect").run("inspect_perplexity", server, *TEXTS)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_the_perplexity_is_that_of_the_model(seen: Any, reference: Reference, provider: str) -> None:
    rows = [reference.logprobs(reference.tokens(text)) for text in TEXTS]
    for sample, row in zip(seen[provider]["samples"], rows, strict=True):
        assert sample["num_tokens"] == len(row)
        assert sample["sum_log_probs"] == pytest.approx(math.fsum(row), abs=1e-6)
    n_tokens = sum(len(row) for row in rows)
    expected = math.exp(-math.fsum(value for row in rows for value in row) / n_tokens)
    assert seen[provider]["metrics"]["perplexity_per_token"] == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_the_choices_come_with_their_numbers_and_usage(seen: Any, reference: Reference, provider: str) -> None:
    for sample, text in zip(seen[provider]["samples"], TEXTS, strict=True):
        assert sample["choices"] == [reference.text(text, 1)] * 2
        assert sample["tops"] == [2, 2]
        assert sample["usage"] == [len(reference.tokens(text)), 2]
