"""Bans over HTTP: plain and as a stream, with everything else that a request can ask for."""

import asyncio
import re
from typing import Any

import httpx
import pytest
from tests.api.folding import chunks_of, fold
from tests.api.served import app_of, assert_error, client_of

BANNED: dict[str, list[str]] = {
    "banned_strings": ["LO w", "d "],
    "bad_words": ["hel", "é"],
    "banned_regex": ["o[a-z]", "[0-9]{2}"],
}
ASKED: dict[str, Any] = {"prompt": "hello world é ", "max_tokens": 40, "seed": 3, **BANNED}
PATTERN = re.compile("(?i:lo w|d )|hel|é|o[a-z]|[0-9]{2}")

FIELDS: list[dict[str, Any]] = [
    {},
    {"temperature": 0},
    {"temperature": 0.3, "logit_bias": {"104": 4, "101": -100}},
    {"n": 3},
    {"n": 2, "best_of": 4},
    {"logprobs": 2},
    {"temperature": 0.2, "logprobs": 0, "echo": True},
    {"return_token_ids": True, "temperature": 0.2},
    {"stop": ["w", "zz"], "include_stop_str_in_output": True},
    {"min_tokens": 30, "logit_bias": {"256": 6}},
    {"ban_eos_token": True},
    {"typical_p": 0.9, "xtc_probability": 0.5, "dry_multiplier": 0.8, "mirostat": 2},
    {"frequency_penalty": 1, "repetition_penalty": 1.3, "no_repeat_ngram_size": 3},
    {"adaptive_target": 0.3, "min_p": 0.01},
    {"guidance_scale": 1.5, "negative_prompt": "other words "},
    {"regex": "[hel w]{3,50}"},
    {"temperature": 0, "json_schema": {"type": "object", "properties": {"hello": {"type": "string"}}}},
]


async def complete(client: httpx.AsyncClient, **fields: Any) -> dict[str, Any]:
    response = await client.post("/v1/completions", json=ASKED | fields)
    assert response.status_code == 200, response.text
    body: dict[str, Any] = response.json()
    return body


@pytest.mark.parametrize("fields", FIELDS, ids=str)
async def test_no_choice_has_a_banned_text_plain_or_streamed(fields: dict[str, Any]) -> None:
    async with client_of(app_of()) as client:
        plain = await complete(client, **fields)
        if "best_of" not in fields:
            streaming = {"stream": True, "stream_options": {"include_usage": True}}
            stream = await client.post("/v1/completions", json=ASKED | fields | streaming)
            folded = fold(chunks_of(stream.text))
            assert (folded["choices"], folded["usage"]) == (plain["choices"], plain["usage"])
    for choice in plain["choices"]:
        text = choice["text"].removeprefix(ASKED["prompt"]) if "echo" in fields else choice["text"]
        assert PATTERN.search(text) is None
        assert text != ""


async def test_what_is_taken_back_is_neither_listed_nor_counted() -> None:
    async with client_of(app_of()) as client:
        ascii_only = list(range(32, 127))
        body = await complete(
            client, temperature=0, max_tokens=12, logprobs=0, return_token_ids=True, allowed_token_ids=ascii_only
        )
    [choice] = body["choices"]
    assert "".join(choice["logprobs"]["tokens"]) == choice["text"]
    assert bytes(choice["token_ids"]).decode() == choice["text"]
    assert choice["logprobs"]["text_offset"] == [len(ASKED["prompt"]) + place for place in range(12)]
    assert body["usage"]["completion_tokens"] == 12
    # "hel", which the model would write, is banned where it begins.
    assert choice["text"][0] != "h"


async def test_candidates_are_ranked_by_the_tokens_that_they_have() -> None:
    async with client_of(app_of()) as client:
        best = await complete(client, n=4, best_of=8, logprobs=0)
    means = [sum(choice["logprobs"]["token_logprobs"]) / 40 for choice in best["choices"]]
    assert means == sorted(means, reverse=True)


async def test_the_same_seed_gives_the_same_answer_alone_and_beside_others() -> None:
    async with client_of(app_of()) as client:
        alone = [(await complete(client, seed=seed, logprobs=1))["choices"] for seed in range(8)]
        beside = await asyncio.gather(
            *(complete(client, seed=seed, logprobs=1) for seed in range(8)),
            *(complete(client, n=2, temperature=0.5) for _ in range(4)),
        )
    assert alone == [one["choices"] for one in beside[:8]]
    assert len({choices[0]["text"] for choices in alone}) > 3


async def test_a_choice_that_nothing_may_follow_ends_with_stop() -> None:
    everything = {"banned_regex": [".|\n"], "banned_strings": [], "bad_words": []}
    async with client_of(app_of()) as client:
        nothing = await complete(client, **everything, ban_eos_token=True, custom_token_bans=[257], logprobs=1)
        ended = await complete(client, **everything, temperature=0, custom_token_bans=[257], logprobs=1)
    assert nothing["choices"][0] == nothing["choices"][0] | {"text": "", "finish_reason": "stop"}
    assert nothing["usage"]["completion_tokens"] == 0
    # The end is the only token that has no text.
    assert ended["choices"][0]["logprobs"]["tokens"] == ["<|endoftext|>"]


async def test_a_stop_counts_unless_its_token_completes_a_banned_text() -> None:
    greedy = {"temperature": 0, "banned_strings": ["lo"], "bad_words": [], "banned_regex": []}
    async with client_of(app_of()) as client:
        stopped = await complete(client, **greedy, stop=["l"])
        before = await complete(client, **greedy, stop=["o"])
    assert (stopped["choices"][0]["text"], stopped["choices"][0]["finish_reason"]) == ("he", "stop")
    assert before["choices"][0]["text"].startswith("hel")
    assert not before["choices"][0]["text"].startswith("helo")


@pytest.mark.parametrize(
    ("fields", "letters"),
    [
        ({"allowed_token_ids": [97, 98]}, "ab"),
        ({"allowed_tokens": "97, 98,"}, "ab"),
        ({"allowed_token_ids": [97, 98, 99], "logit_bias": {"97": 1, "99": -100}}, "ab"),
        ({"allowed_token_ids": [97, 98], "logit_bias": {"98": 100, "99": 100}}, "b"),
        ({"allowed_token_ids": [97, 98], "custom_token_bans": "98"}, "a"),
        ({"allowed_token_ids": [97, 98], "banned_tokens": [97]}, "b"),
        ({"allowed_token_ids": [97, 98], "banned_tokens": ["a"]}, "b"),
        ({"allowed_token_ids": [97, 98], "banned_regex_case_insensitive": ["A"]}, "b"),
        ({"allowed_token_ids": [97, 98], "frequency_penalty": 2}, "ab"),
    ],
)
async def test_only_tokens_that_are_allowed_and_not_banned_are_sampled(fields: dict[str, Any], letters: str) -> None:
    asked = {"prompt": "xyz", "max_tokens": 40, "seed": 1}
    async with client_of(app_of()) as client:
        [choice] = (await client.post("/v1/completions", json=asked | fields)).json()["choices"]
    assert set(choice["text"]) == set(letters)
    assert len(choice["text"]) == 40


async def test_a_model_whose_end_is_banned_goes_on() -> None:
    asked = {"prompt": "hello ", "max_tokens": 9, "temperature": 0, "logit_bias": {"256": 90}}
    async with client_of(app_of()) as client:
        for field in ("ban_eos_token", "use_default_badwordsids"):
            [choice] = (await client.post("/v1/completions", json=asked | {field: True})).json()["choices"]
            assert (choice["text"], choice["finish_reason"]) == ("hello hel", "length")


@pytest.mark.parametrize(
    ("fields", "param", "words"),
    [
        ({"banned_strings": [1]}, "banned_strings", "must hold strings only, not an integer"),
        ({"bad_words": {"a": 1}}, "bad_words", "must be an array of strings, not an object"),
        ({"bad_words": ["x"] + [str(n) for n in range(2000)]}, "bad_words", "at most 2000 strings"),
        ({"banned_strings": "x" * 50_001}, "banned_strings", "50000 characters together, not 1 of 50001"),
        ({"banned_regex": ["a("]}, "banned_regex", "cannot be followed"),
        ({"banned_regex": ["a*"]}, "banned_regex", "matches the empty text"),
        ({"banned_regex_case_insensitive": [r"\bfoo"]}, "banned_regex_case_insensitive", "cannot be followed"),
        ({"banned_tokens": "5, x"}, "banned_tokens", "has 'x', which is not a token id"),
        ({"banned_tokens": [5, "x"]}, "banned_tokens", "must hold strings only, not an integer"),
        ({"banned_tokens": [999]}, "banned_tokens", "999"),
        ({"custom_token_bans": [-1]}, "custom_token_bans", "must hold token ids, not -1"),
        ({"allowed_token_ids": [1.5]}, "allowed_token_ids", "must hold integers only"),
        ({"allowed_token_ids": [258]}, "allowed_token_ids", "258"),
        ({"allowed_token_ids": [7], "custom_token_bans": [7]}, "allowed_token_ids", "bans every token"),
        ({"logit_bias": {"7": 100}, "custom_token_bans": [7]}, "logit_bias", "together ban every token"),
        ({"ban_eos_token": "yes"}, "ban_eos_token", "must be a boolean"),
        ({"use_beam_search": True, "best_of": 2, "bad_words": ["a"]}, "use_beam_search", "texts that are banned"),
        ({"num_beams": 2, "banned_regex": ["a"]}, "num_beams", "texts that are banned"),
    ],
)
async def test_what_cannot_be_banned_is_a_400_that_says_why(fields: dict[str, Any], param: str, words: str) -> None:
    async with client_of(app_of()) as client:
        content = {"prompt": "hello ", "max_tokens": 5} | fields
        refused = await client.post("/v1/completions", json=content)
    assert_error(refused, 400, param, refused.json()["error"]["code"])
    assert words in refused.json()["error"]["message"]
