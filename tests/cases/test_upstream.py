"""The same cases through a second server, whose model is the first one: nothing gets lost between the two."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest
from tests.api.served import wait_until
from tests.cases import echo, logprobs, stops, utf8
from tests.cases.case import FRANCE, Body, Case, Json, Refusal
from tests.cases.conftest import Running
from tests.cases.wellformed import body_of, check_error, folded
from tests.live import run_server

from afterword.api.app import create_app
from afterword.config.load import load_config
from afterword.config.model import DEFAULT_MODEL
from afterword.config.tree import ServerConfig
from afterword.loading.load_registry import load_registry

CASES: list[Case] = [case for module in (utf8, stops, logprobs, echo) for case in module.CASES]

TOML = """
[[vendors]]
name = "first"
url = "{url}/v1"
kind = "afterword"

[[models]]
name = "{model}"
vendor = "first"
tokenizer = "{model}"

[[models]]
name = "as-text"
vendor = "first"
upstream_model = "{model}"
"""

pytestmark = pytest.mark.model


@pytest.fixture(scope="module")
def second(server: Running, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    directory: Path = tmp_path_factory.mktemp("second")
    (directory / "afterword.toml").write_text(TOML.format(url=server.url, model=DEFAULT_MODEL.name))
    registry = load_registry(load_config({}, {}, directory))
    with run_server(create_app(registry, ServerConfig())) as url, httpx.Client(base_url=url, timeout=120) as http:
        yield Running(url, http, registry.get(None).engine)


def shown(body: Json) -> Json:
    """What must be the same from both servers: everything but ids, times and how much was cached."""
    usage = {name: body["usage"][name] for name in ("prompt_tokens", "completion_tokens", "total_tokens")}
    return {"choices": body["choices"], "usage": usage}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_both_servers_say_the_same(server: Running, second: Running, case: Case) -> None:
    body = {"seed": 1} | case.body
    if isinstance(case.expect, Refusal):
        mine, theirs = (check_error(each.post(body), case.expect.status) for each in (second, server))
        assert {name: mine[name] for name in ("type", "param", "code")} == {
            name: theirs[name] for name in ("type", "param", "code")
        }
        return
    expected = shown(body_of(server.post(body)))
    assert shown(body_of(second.post(body))) == expected
    if body.get("best_of") in (None, body.get("n", 1)):
        streamed = body | {"stream": True, "stream_options": {"include_usage": True}}
        assert shown(folded(second.post(streamed))) == expected


SAMPLED: list[Any] = [
    pytest.param({"n": 3, "temperature": 1.3}, id="n"),
    pytest.param({"n": 2, "best_of": 4, "temperature": 1.0}, id="best_of"),
    pytest.param({"top_k": 5, "min_p": 0.02, "temperature": 1.0}, id="cuts"),
    pytest.param({"frequency_penalty": 1.0, "presence_penalty": 0.5, "repetition_penalty": 1.1}, id="penalties"),
    pytest.param({"logit_bias": {"260": 2.5, "253": -100}}, id="bias"),
    pytest.param({"ignore_eos": True, "min_tokens": 8, "stop_token_ids": [260]}, id="ends"),
    pytest.param({"echo": True, "logprobs": 3, "max_tokens": 0}, id="scoring"),
    pytest.param({"prompt_logprobs": 2}, id="prompt_logprobs"),
    pytest.param({"return_token_ids": True, "echo": True, "n": 2, "stop": " is"}, id="return_token_ids"),
]


@pytest.mark.parametrize("fields", SAMPLED)
def test_sampled_answers_follow_from_the_same_seeds(server: Running, second: Running, fields: Body) -> None:
    body = {"prompt": FRANCE, "max_tokens": 24, "seed": 11, "logprobs": 2} | fields
    assert shown(body_of(second.post(body))) == shown(body_of(server.post(body)))


def test_equal_prompts_of_a_batch_draw_differently(second: Running) -> None:
    body = {"prompt": [FRANCE] * 3, "max_tokens": 24, "seed": 11, "temperature": 1.5}
    assert len({choice["text"] for choice in body_of(second.post(body))["choices"]}) == 3


def test_the_model_s_card_says_what_the_first_server_promises(server: Running, second: Running) -> None:
    mine, theirs = (each.http.get(f"/v1/models/{DEFAULT_MODEL.name}").json() for each in (second, server))
    assert mine["max_model_len"] == theirs["max_model_len"]
    assert mine["capabilities"]["reproducible"] == theirs["capabilities"]["reproducible"]
    assert mine["system_fingerprint"] != theirs["system_fingerprint"]
    assert second.http.get("/v1/models/first/as-text").json()["capabilities"]["exact_tokens"] is False


@pytest.mark.parametrize("stream", [True, False])
def test_whoever_leaves_the_second_server_frees_the_first(server: Running, second: Running, stream: bool) -> None:
    body = {"prompt": FRANCE, "max_tokens": 1000, "ignore_eos": True, "stream": stream}
    with httpx.Client(base_url=second.url, timeout=0.5 if not stream else 60) as client:
        if stream:
            with client.stream("POST", "/v1/completions", json=body) as response:
                next(response.iter_bytes())
                assert server.engine.stats().running == 1
        else:
            with pytest.raises(httpx.ReadTimeout):
                client.post("/v1/completions", json=body)
    wait_until(server.url, lambda: server.engine.stats().running == 0)


def test_the_official_client_reads_a_stream_through_both(second: Running) -> None:
    with openai.OpenAI(base_url=f"{second.url}/v1", api_key="none") as client:
        asked: dict[str, Any] = {
            "model": DEFAULT_MODEL.name,
            "prompt": FRANCE,
            "max_tokens": 8,
            "temperature": 0,
            "logprobs": 1,
        }
        plain = client.completions.create(**asked)
        pieces = [chunk for chunk in client.completions.create(**asked, stream=True) if chunk.choices]
    assert plain.choices[0].text == "".join(piece.choices[0].text for piece in pieces) != ""
    assert plain.choices[0].logprobs is not None
    assert plain.choices[0].logprobs.text_offset is not None
    assert plain.choices[0].logprobs.text_offset[0] == len(FRANCE)


def test_without_a_tokenizer_the_text_and_the_counts_are_the_same(server: Running, second: Running) -> None:
    body = {"prompt": FRANCE, "max_tokens": 24, "seed": 11, "stop": ["\n"], "logprobs": 2}
    mine, theirs = body_of(second.post(body | {"model": "as-text"})), body_of(server.post(body))
    assert shown(mine) == shown(theirs)
    plain = body_of(second.post(body | {"model": "as-text", "logprobs": None}))
    assert plain["choices"][0]["text"] == theirs["choices"][0]["text"]
    assert plain["usage"]["completion_tokens"] == theirs["usage"]["completion_tokens"]


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"prompt": [1, 2]}, "prompt"),
        ({"logit_bias": {"5": 1}}, "logit_bias"),
        ({"echo": True, "logprobs": 1}, "logprobs"),
        ({"return_token_ids": True}, "return_token_ids"),
        ({"suffix": "x"}, "suffix"),
    ],
)
def test_without_a_tokenizer_what_needs_one_is_refused_by_name(second: Running, fields: Body, param: str) -> None:
    error = check_error(second.post({"prompt": "a", "model": "as-text"} | fields), 400)
    assert error["param"] == param


def test_a_prompt_too_long_for_the_first_server_is_said_in_the_same_words(second: Running) -> None:
    error = check_error(second.post({"prompt": FRANCE, "model": "as-text", "max_tokens": 100_000}), 400)
    assert error["code"] == "context_length_exceeded"
    assert "maximum context length is" in error["message"]


def test_a_second_server_shows_the_state_of_the_first(second: Running) -> None:
    lines = second.http.get("/metrics").text.splitlines()
    model = f'model="{DEFAULT_MODEL.name}"'
    assert f'afterword_upstream_state{{{model},state="closed",vendor="first"}} 1.0' in lines
    assert any(line.startswith(f'afterword_upstream_requests_total{{{model},vendor="first"}}') for line in lines)
    assert second.http.get("/ready").status_code == 200
