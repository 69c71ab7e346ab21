"""The fault corpus on vLLM: same model, same vocabulary, same answers. What differs is listed in docs/vllm.md."""

from typing import Any

import pytest
from tests.cases.case import Alike, Case, Json
from tests.cases.conftest import Running
from tests.cases.test_cases import ALIKE, CASES, check_case
from tests.cases.test_cases import test_ways_to_ask_the_same_get_the_same as check_alike
from tests.cases.wellformed import check_usage

pytestmark = pytest.mark.vllm

CLOSE = 1e-3
"""How far log-probabilities of the same text may lie apart; vLLM rounds differently for other batches."""


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_a_known_fault_does_not_happen_on_vllm(running: Running, case: Case) -> None:
    check_case(running, case, check_close)


@pytest.mark.parametrize("alike", ALIKE, ids=lambda alike: alike.id)
def test_ways_to_ask_the_same_get_the_same_on_vllm(running: Running, alike: Alike) -> None:
    check_alike(running, alike)


def check_close(body: Json, whole: Json) -> None:
    """The plain answer is the fold of the stream, but for the last digits of log-probabilities."""
    check_usage(whole["usage"])
    assert rounded(whole["choices"]) == rounded(body["choices"])
    for name in ("prompt_tokens", "completion_tokens", "total_tokens"):
        assert whole["usage"][name] == body["usage"][name]


def rounded(value: Any) -> Any:
    """The same JSON with numbers that compare within `CLOSE`."""
    match value:
        case float():
            return pytest.approx(value, abs=CLOSE)
        case dict():
            return {key: rounded(part) for key, part in value.items()}
        case list():
            return [rounded(part) for part in value]
    return value
