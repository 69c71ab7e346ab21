"""HELM's `OpenAILegacyCompletionsClient`: scoring with nothing generated, and best_of sent equal to n."""

import math
from typing import Any

import pytest
from tests.clients.conftest import OpenClient
from tests.clients.reference import Reference

pytestmark = [pytest.mark.clients, pytest.mark.model]

TEXT = "Hello 🙂 naïve 漢"


@pytest.fixture(scope="module")
def seen(open_client: OpenClient, server: str) -> Any:
    return open_client("helm").run("helm_client", server, TEXT)


def test_a_scored_text_has_its_own_tokens_and_no_other(seen: Any, reference: Reference) -> None:
    [scored] = seen["scored"]
    ids = reference.tokens(TEXT)
    assert scored["text"] == TEXT
    assert len(scored["tokens"]) == len(ids)
    assert [value for _, value in scored["tokens"]] == pytest.approx([0, *reference.logprobs(ids)], abs=1e-6)
    assert scored["logprob"] == pytest.approx(math.fsum(reference.logprobs(ids)), abs=1e-5)


def test_the_bytes_of_a_text_can_be_counted_from_its_tokens(seen: Any) -> None:
    [scored] = seen["scored"]
    assert [text for text, _ in scored["tokens"]] == [
        *["Hello", " 🙂", " na", "ïve", r"bytes:\x20\xe6", r"bytes:\xbc", r"bytes:\xa2"]
    ]


def test_greedy_candidates_are_as_many_as_asked_for_and_alike(seen: Any, reference: Reference) -> None:
    first, second = seen["greedy"]
    assert first["text"] == second["text"] == reference.text(TEXT, 8)
    assert first["tokens"] == second["tokens"]
    assert math.fsum(value for _, value in first["tokens"]) == pytest.approx(first["logprob"], abs=1e-9)
