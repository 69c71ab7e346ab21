"""Every case of the data modules, sent plain and as a stream to one server with the default model."""

from collections.abc import Callable
from typing import Any

import httpx
import pytest
from tests.cases import bias, context, echo, logprobs, numbers, prompts, sampling, stops, suffix, utf8
from tests.cases.case import Alike, Answer, Body, Case, Json, Refusal
from tests.cases.conftest import Running
from tests.cases.wellformed import body_of, check_error, check_usage, folded, stream_of

MODULES = (utf8, stops, logprobs, echo, prompts, bias, sampling, numbers, context, suffix)
CASES: list[Case] = [case for module in MODULES for case in module.CASES]
ALIKE: list[Alike] = [alike for module in MODULES for alike in module.ALIKE]

pytestmark = pytest.mark.model


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_a_known_fault_does_not_happen_here(server: Running, case: Case) -> None:
    check_case(server, case, check_same)


def check_case(server: Running, case: Case, check_same: Callable[[Json, Json], None]) -> None:
    """Send a case plain and as a stream. `check_same` judges whether the stream's fold is the plain answer."""
    plain = {"seed": 1} | case.body
    streamed = plain | {"stream": True, "stream_options": {"include_usage": True}}
    if isinstance(case.expect, Refusal):
        _check_refusal(server.post(plain), case.expect)
        _check_refusal(server.post(streamed), case.expect)
        return
    body = body_of(server.post(plain))
    _check_answer(body, case.expect)
    if plain.get("best_of") not in (None, plain.get("n", 1)):
        assert check_error(server.post(streamed), 400)["param"] == "best_of"
        return
    response = server.post(streamed)
    check_same(body, folded(response))
    if case.expect.pieces is not None:
        assert _pieces(response) == case.expect.pieces


@pytest.mark.parametrize("alike", ALIKE, ids=lambda alike: alike.id)
def test_ways_to_ask_the_same_get_the_same(server: Running, alike: Alike) -> None:
    bodies = [body_of(server.post({"seed": 1} | body)) for body in alike.bodies]
    texts = [[choice["text"] for choice in body["choices"]] for body in bodies]
    assert texts == [texts[0]] * len(texts)
    if alike.prompt_tokens is not None:
        assert [body["usage"]["prompt_tokens"] for body in bodies] == [alike.prompt_tokens] * len(bodies)


def test_the_server_has_lived_through_it_all(server: Running) -> None:
    """Bad requests leave nothing behind: this one comes after all of them in a run of the whole file."""
    body: Body = {"prompt": "Hello", "max_tokens": 2, "temperature": 0, "logit_bias": {"260": 100}}
    assert body_of(server.post(body))["choices"][0]["text"] == " the the"


def _check_refusal(response: httpx.Response, expect: Refusal) -> None:
    error = check_error(response, expect.status)
    assert error["param"] == expect.param, error
    if expect.code is not None:
        assert error["code"] == expect.code
    for words in expect.words:
        assert words in error["message"]


def _check_answer(body: Json, expect: Answer) -> None:
    choices, usage = body["choices"], body["usage"]
    expected: dict[str, Any] = {
        "texts": expect.texts,
        "finish": None if expect.finish is None else [expect.finish] * len(choices),
        "prompt_tokens": expect.prompt_tokens,
        "completion_tokens": expect.completion_tokens,
        "tokens": expect.tokens,
        "offsets": expect.offsets,
    }
    logprobs = choices[0]["logprobs"] or {}
    found: dict[str, Any] = {
        "texts": [choice["text"] for choice in choices],
        "finish": [choice["finish_reason"] for choice in choices],
        "prompt_tokens": usage["prompt_tokens"],
        "completion_tokens": usage["completion_tokens"],
        "tokens": logprobs.get("tokens"),
        "offsets": logprobs.get("text_offset"),
    }
    assert {name: found[name] for name in expected if expected[name] is not None} == {
        name: value for name, value in expected.items() if value is not None
    }
    if expect.check is not None:
        expect.check(body)


def check_same(body: Json, whole: Json) -> None:
    """The plain answer is the fold of the stream, but for how much of the prompt the second one found cached."""
    check_usage(whole["usage"])
    assert whole["choices"] == body["choices"]
    for name in ("prompt_tokens", "completion_tokens", "total_tokens"):
        assert whole["usage"][name] == body["usage"][name]


def _pieces(response: httpx.Response) -> list[str]:
    parts = [choice for chunk in stream_of(response) for choice in chunk["choices"]]
    return [part["text"] for part in parts if part["text"] != ""]
