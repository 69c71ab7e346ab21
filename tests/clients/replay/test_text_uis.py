"""Pages and programs for people who write with a base model: dozens of foreign fields, browsers, log-probabilities."""

import math
import re
from collections.abc import Mapping

import httpx
import pytest
from tests.clients.replay.sillytavern import EVERY_FIELD
from tests.clients.replay.wire import PAGE, Json, Wire, stream_of, text_of


@pytest.mark.parametrize("stream", [False, True])
def test_sillytavern_sends_sixty_neutral_fields(wire: Wire, stream: bool) -> None:
    assert len(EVERY_FIELD) >= 60
    body = EVERY_FIELD | {"prompt": "hello ", "max_tokens": 5, "temperature": 0, "stream": stream}
    response = wire.post(body)
    read = text_of(stream_of(response)) if stream else response.json()["choices"][0]["text"]
    assert read == "hello"


@pytest.mark.parametrize(
    ("field", "value"),
    [("min_length", 5), ("penalty_alpha", 0.6)],
)
def test_sillytavern_learns_which_field_would_have_been_ignored(wire: Wire, field: str, value: object) -> None:
    refused = wire.send(EVERY_FIELD | {"prompt": "hello ", field: value})
    assert refused.status_code == 400
    error = refused.json()["error"]
    # The page shows `error.message` and nothing else of it.
    assert error["param"] == field
    assert field in error["message"]


SAMPLERS: Json = {
    "temperature": 1.2,
    "dynamic_temperature": True,
    "dynatemp_low": 0.7,
    "dynatemp_high": 1.6,
    "smoothing_factor": 0.3,
    "smoothing_curve": 1.4,
    "temperature_last": True,
    "top_p": 0.95,
    "top_k": 60,
    "top_a": 0.05,
    "min_p": 0.02,
    "typical": 0.98,
    "typical_p": 0.98,
    "tfs": 0.97,
    "epsilon_cutoff": 1.5,
    "eta_cutoff": 2,
    "nsigma": 2.5,
    "top_n_sigma": 2.5,
    "min_keep": 2,
    "skew": 0.1,
    "mirostat_mode": 2,
    "mirostat": 2,
    "xtc_probability": 0.5,
    "repetition_penalty": 1.1,
    "rep_pen": 1.1,
    "rep_pen_range": 1024,
    "repetition_penalty_range": 1024,
    "repeat_last_n": 1024,
    "no_repeat_ngram_size": 12,
    "frequency_penalty": 0.1,
    "presence_penalty": 0.1,
    "dry_multiplier": 0.8,
    "adaptive_target": 0.5,
    "adaptive_decay": 0.9,
    "samplers": [],
    "sampler_order": [],
    "sampler_priority": [
        "repetition_penalty",
        "presence_penalty",
        "frequency_penalty",
        "dry",
        "temperature",
        "dynamic_temperature",
        "quadratic_sampling",
        "top_n_sigma",
        "top_k",
        "top_p",
        "typical_p",
        "epsilon_cutoff",
        "eta_cutoff",
        "tfs",
        "top_a",
        "min_p",
        "mirostat",
        "xtc",
        "encoder_repetition_penalty",
        "no_repeat_ngram",
    ],
}
"""Every sampler of its panel at once, each where it changes something."""


def test_sillytavern_turns_every_sampler_on(wire: Wire) -> None:
    body = EVERY_FIELD | SAMPLERS | {"prompt": "hello ", "max_tokens": 40, "seed": 5}
    first, again = (wire.post(body).json()["choices"][0]["text"] for _ in range(2))
    assert first == again
    assert wire.post(body | {"seed": 6}).json()["choices"][0]["text"] != first


@pytest.mark.parametrize(
    "fields",
    [{"grammar_string": 'root ::= "a" [bc]+ "d"'}, {"guided_regex": "a[bc]+d"}, {"json_schema": {"const": "abd"}}],
)
def test_sillytavern_sends_a_grammar_or_a_schema(wire: Wire, fields: Json) -> None:
    text = wire.post(EVERY_FIELD | fields | {"prompt": "hello ", "max_tokens": 60, "seed": 1}).json()["choices"][0][
        "text"
    ]
    assert re.fullmatch('a[bc]+d?|"abd"', text)


def test_sillytavern_sorts_swipes_by_index(wire: Wire) -> None:
    body = {"model": "echo", "prompt": "ab", "n": 3, "max_tokens": 2, "temperature": 0, "stream": True, "logprobs": 5}
    swipes = ["", "", ""]
    for chunk in stream_of(wire.post(body)):
        [choice] = chunk["choices"]
        swipes[choice["index"]] += choice["text"]
        # Only the first entry of a chunk is ever looked at.
        assert len(choice["logprobs"]["top_logprobs"]) == 1
        assert len(choice["logprobs"]["top_logprobs"][0]) == 5
    assert swipes == ["ab", "ab", "ab"]


def test_sillytavern_checks_the_server_by_its_list_of_models(wire: Wire) -> None:
    data = wire.get("/v1/models").json()["data"]
    assert [model["id"] for model in data] == ["echo", "gap", "slow"]


def preflight(wire: Wire, path: str) -> httpx.Response:
    """What a browser asks before it lets a page of another origin post JSON with a key."""
    headers = {
        "Origin": PAGE,
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "authorization,content-type",
        "Access-Control-Request-Private-Network": "true",
    }
    return httpx.options(wire.url + path, headers=headers)


def assert_page_may_read(headers: Mapping[str, str]) -> None:
    assert headers["access-control-allow-origin"] == PAGE


@pytest.mark.parametrize("path", ["/v1/completions", "/v1/completions/", "/v1/models", "/tokenize"])
def test_a_browser_may_ask_from_a_page_that_is_named(wire: Wire, path: str) -> None:
    allowed = preflight(wire, path)
    assert allowed.is_success
    assert_page_may_read(allowed.headers)
    assert "POST" in allowed.headers["access-control-allow-methods"]
    asked = {name.strip().lower() for name in allowed.headers["access-control-allow-headers"].split(",")}
    # A star would not cover the key.
    assert {"authorization", "content-type"} <= asked
    assert allowed.headers["access-control-allow-private-network"] == "true"


MIKUPAD: Json = {
    "model": "echo",
    "prompt": "hello ",
    "stream": True,
    "max_tokens": 5,
    "temperature": 0,
    "logprobs": 10,
    "n_probs": 10,
    "repetition_penalty": 1.0,
    "repeat_penalty": 1.0,
    "repeat_last_n": 256,
    "penalize_nl": False,
    "ignore_eos": False,
    "ban_eos_token": False,
    "top_k": 0,
    "top_p": 1,
    "min_p": 0,
    "typical_p": 1,
    "tfs_z": 1,
    "mirostat": 0,
    "mirostat_tau": 5,
    "mirostat_eta": 0.1,
    "xtc_probability": 0,
    "xtc_threshold": 0.1,
    "dry_multiplier": 0,
    "dry_base": 1.75,
    "dry_allowed_length": 2,
    "dry_penalty_last_n": 1024,
    "dry_sequence_breakers": ["\n", ":"],
    "presence_penalty": 0,
    "frequency_penalty": 0,
    "seed": -1,
    "stop": [],
}


def test_mikupad_finds_the_probability_of_what_it_shows(wire: Wire) -> None:
    response = wire.post(MIKUPAD, Origin=PAGE)
    assert_page_may_read(response.headers)
    chunks = stream_of(response)
    assert text_of(chunks) == "hello"
    for chunk in chunks:
        [choice] = chunk["choices"]
        assert 0 < math.exp(choice["logprobs"]["top_logprobs"][0][choice["text"]]) <= 1


def test_mikupad_matches_tokens_and_their_lists_in_a_plain_answer(wire: Wire) -> None:
    [choice] = wire.post(MIKUPAD | {"stream": False}).json()["choices"]
    tokens, tops = choice["logprobs"]["tokens"], choice["logprobs"]["top_logprobs"]
    assert tokens == list("hello")
    assert [token in top for token, top in zip(tokens, tops, strict=True)] == [True] * 5


def test_mikupad_shows_the_message_of_an_error(wire: Wire) -> None:
    refused = wire.send(MIKUPAD | {"model": "gone"}, Origin=PAGE)
    assert_page_may_read(refused.headers)
    assert refused.json()["error"]["message"].startswith("The model 'gone' does not exist on this server. It has ")


KOBOLD_LITE: Json = {
    "max_tokens": 5,
    "model": "echo",
    "temperature": 0,
    "top_p": 0.92,
    "prompt": "hello ",
    "stop": ["\n### ", "\nUser: "],
    "presence_penalty": 0,
    "logit_bias": {},
    "logprobs": 5,
    "stream": True,
}

KOBOLD_FIELDS: Json = {
    "n": 1,
    "max_context_length": 4096,
    "max_length": 240,
    "rep_pen": 1.0,
    "rep_pen_range": 360,
    "rep_pen_slope": 0.7,
    "top_k": 100,
    "top_a": 0,
    "typical": 1,
    "tfs": 1,
    "min_p": 0,
    "sampler_order": [6, 0, 1, 3, 4, 2, 5],
    "memory": "",
    "trim_stop": True,
    "genkey": "KCPP1234",
    "use_default_badwordsids": False,
    "bypass_eos": False,
}


@pytest.mark.parametrize("more", [{}, KOBOLD_FIELDS], ids=["standard", "all its own fields"])
def test_kobold_lite(wire: Wire, more: Json) -> None:
    response = wire.post(KOBOLD_LITE | more, Origin=PAGE)
    assert_page_may_read(response.headers)
    assert text_of(stream_of(response)) == "hello"


@pytest.mark.parametrize("prompt", ["hello ", "naïve “🙂” "], ids=["ascii", "other"])
def test_pyloom_cuts_text_and_numbers_at_the_prompt(wire: Wire, prompt: str) -> None:
    body: Json = {
        "temperature": 0,
        "max_tokens": 5,
        "top_p": 1,
        "logprobs": 3,
        "logit_bias": {},
        "n": 2,
        "stop": None,
        "model": "echo",
        "prompt": prompt,
        "echo": True,
    }
    answer = wire.post(body).json()
    n_prompt = answer["usage"]["prompt_tokens"]
    assert n_prompt == len(prompt.encode())
    for choice in answer["choices"]:
        logprobs = choice["logprobs"]
        assert choice["text"][: len(prompt)] == prompt
        assert logprobs["top_logprobs"][0] is None
        assert logprobs["text_offset"][n_prompt] == len(prompt)
        cut = {name: values[n_prompt:] for name, values in logprobs.items()}
        assert [len(values) for values in cut.values()] == [5, 5, 5, 5]
        assert prompt.startswith(choice["text"][len(prompt) :])


@pytest.mark.parametrize("prompt", ["It\u2019s", "“Yes", "so 🙂", [226, 128], [240, 159, 153]], ids=repr)
def test_minihf_lists_a_hundred_tokens_that_are_not_whole_characters(wire: Wire, prompt: object) -> None:
    body: Json = {
        "model": "echo",
        "prompt": prompt,
        "n": 1,
        "temperature": 0.9,
        "top_k": 50,
        "repetition_penalty": 1.02,
        "max_tokens": 8,
        "logprobs": 100,
        "seed": 1,
    }
    [choice] = wire.post(body, path="/v1/completions/").json()["choices"]
    for top in choice["logprobs"]["top_logprobs"]:
        assert 100 <= len(top) <= 101
        assert any(name.startswith("bytes:\\x") for name in top)
        assert all(math.isfinite(value) for value in top.values())
