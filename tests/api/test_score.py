"""Scores over HTTP: the numbers that an echo gives, whatever the engine can do, and what they count as."""

import json
import math
from dataclasses import replace
from typing import Any

import httpx
import pytest
from tests.api.gateways import ListedRows, gateway_of
from tests.api.served import BreakingEngine, app_of, assert_error, client_of, full_engine

from afterword.engine.base import Engine
from afterword.engine.echo import EchoEngine
from afterword.errors import EngineFailed
from afterword.gateway.grant import Grant, KeyLimits
from afterword.gateway.limiter import memory_limiter

CONTEXT, ENDINGS = "hello", [" world", " there", "h", " h", " x"]
CHOICES: dict[str, Any] = {"prompt": CONTEXT, "continuations": ENDINGS}
LABELS: dict[str, Any] = {"query": "hello ", "items": ["a", "bc"], "label_token_ids": [104, 98, 99]}


def engine_without(*features: str, max_logprobs: int = 100) -> EchoEngine:
    engine = EchoEngine()
    lacks = dict.fromkeys(features, "nobody can.")
    engine.capabilities = replace(engine.capabilities, lacks=lacks, max_logprobs=max_logprobs)
    return engine


async def scored(engine: Engine, body: dict[str, Any]) -> dict[str, Any]:
    async with client_of(app_of(engine)) as client:
        response = await client.post("/v1/score", json=body)
    assert response.status_code == 200, response.text
    answer: dict[str, Any] = response.json()
    return answer


async def echoed(client: httpx.AsyncClient, text: str) -> dict[str, Any]:
    body = {"prompt": text, "echo": True, "max_tokens": 0, "logprobs": 1}
    logprobs: dict[str, Any] = (await client.post("/v1/completions", json=body)).json()["choices"][0]["logprobs"]
    return logprobs


@pytest.mark.parametrize("lacks", [(), ("logprob_token_ids",)], ids=["named", "one by one"])
async def test_scores_are_those_of_an_echo(lacks: tuple[str, ...]) -> None:
    answer = await scored(engine_without(*lacks), CHOICES)
    async with client_of(app_of()) as client:
        for number, (ending, got) in enumerate(zip(ENDINGS, answer["data"], strict=True)):
            logprobs = await echoed(client, CONTEXT + ending)
            values = logprobs["token_logprobs"][len(CONTEXT) :]
            tops = [max(top.values()) for top in logprobs["top_logprobs"][len(CONTEXT) :]]
            assert got == {
                "object": "score",
                "index": number,
                "tokens": list(ending),
                "token_ids": list(ending.encode()),
                "token_logprobs": values,
                "sum_logprob": math.fsum(values),
                "mean_logprob": math.fsum(values) / len(values),
                "logprob_per_byte": math.fsum(values) / len(ending),
                "is_greedy": values == tops,
            }
    assert [got["is_greedy"] for got in answer["data"]] == [False, False, True, False, False]


async def test_the_answer_has_its_head_and_its_usage() -> None:
    answer = await scored(EchoEngine(), CHOICES)
    assert list(answer) == ["id", "object", "created", "model", "system_fingerprint", "data", "usage"]
    assert (answer["object"], answer["model"], answer["id"][:6]) == ("scoring", "echo", "score-")
    usage = answer["usage"]
    # The context once.
    assert usage["prompt_tokens"] == usage["total_tokens"] == len(CONTEXT) + sum(map(len, ENDINGS))
    assert usage["completion_tokens"] == 0


@pytest.mark.parametrize("lacks", [(), ("logprob_token_ids",)], ids=["named", "one by one"])
@pytest.mark.parametrize("apply_softmax", [False, True])
@pytest.mark.parametrize("item_first", [False, True])
async def test_labels_have_their_probabilities(lacks: tuple[str, ...], apply_softmax: bool, item_first: bool) -> None:
    asked = LABELS | {"apply_softmax": apply_softmax, "item_first": item_first}
    answer = await scored(engine_without(*lacks), asked)
    assert "data" not in answer
    async with client_of(app_of()) as client:
        for item, row in zip(LABELS["items"], answer["scores"], strict=True):
            text = item + LABELS["query"] if item_first else LABELS["query"] + item
            logprobs = [
                (await echoed(client, text + chr(label)))["token_logprobs"][-1] for label in LABELS["label_token_ids"]
            ]
            total = math.fsum(map(math.exp, logprobs)) if apply_softmax else 1
            assert row == pytest.approx([math.exp(value) / total for value in logprobs])
    if apply_softmax:
        assert [math.fsum(row) for row in answer["scores"]] == pytest.approx([1, 1])


@pytest.mark.parametrize("lacks", [(), ("logprob_token_ids",)], ids=["named", "one by one"])
@pytest.mark.parametrize("labels", [(97, 97), (97, 98, 97)])
async def test_a_label_may_be_asked_for_twice(lacks: tuple[str, ...], labels: tuple[int, ...]) -> None:
    once = await scored(engine_without(*lacks), LABELS | {"label_token_ids": [97, 98]})
    often = await scored(engine_without(*lacks), LABELS | {"label_token_ids": list(labels)})
    assert often["scores"] == [[row[label - 97] for label in labels] for row in once["scores"]]


async def test_where_no_likeliest_tokens_are_known_nothing_is_greedy_or_not() -> None:
    answer = await scored(engine_without(max_logprobs=0), CHOICES)
    assert [got["is_greedy"] for got in answer["data"]] == [None] * len(ENDINGS)


async def test_the_short_route_is_the_same() -> None:
    async with client_of(app_of()) as client:
        first, second = [(await client.post(path, json=LABELS)).json() for path in ("/v1/score", "/score")]
    assert first["scores"] == second["scores"]


async def test_refusals() -> None:
    async with client_of(app_of(engine_without("prompt_logprobs"))) as client:
        assert_error(await client.post("/v1/score", json=CHOICES), 400, "model", "unsupported_parameter")
        assert_error(await client.post("/score", json={"text_1": "a"}), 400, "text_1", "unsupported_parameter")
        assert_error(await client.post("/v1/score", json=CHOICES | {"model": "x"}), 404, "model", "model_not_found")
    async with client_of(app_of(full_engine())) as client:
        assert (await client.post("/v1/score", json={"pairs": [["a", "b"]]})).status_code == 503
    async with client_of(app_of(BreakingEngine(EngineFailed("broken"), 0))) as client:
        assert_error(await client.post("/v1/score", json=CHOICES), 500, None, None)


async def test_a_deadline_that_has_passed_is_a_504() -> None:
    async with client_of(app_of(), **{"x-request-timeout": "1e-9"}) as client:
        assert_error(await client.post("/v1/score", json=CHOICES), 504, None, "request_timed_out")


async def test_keys_ledger_and_limits_count_scores() -> None:
    ledger = ListedRows()
    grants = {"k": Grant("k1", "acme", limits=KeyLimits(tokens_per_minute=60)), "no": Grant("k2", None, frozenset())}
    gateway = gateway_of(grants, ledger=ledger, limiter=memory_limiter())
    n_tokens = len(CONTEXT) + sum(map(len, ENDINGS))
    async with client_of(app_of(gateway=gateway)) as client:
        assert (await client.post("/v1/score", json=CHOICES)).status_code == 401
        refused = await client.post("/v1/score", json=CHOICES, headers={"authorization": "Bearer no"})
        assert refused.status_code == 403
        headers = {"authorization": "Bearer k"}
        first = await client.post("/v1/score", json=CHOICES | {"user": "u"}, headers=headers)
        assert first.headers["x-ratelimit-remaining-tokens"] == str(60 - n_tokens)
        statuses = [(await client.post("/v1/score", json=CHOICES, headers=headers)).status_code for _ in range(2)]
    assert statuses == [200, 429]
    rows = [(row.user, row.prompt_tokens, row.completion_tokens, row.cached_tokens, row.status) for row in ledger.rows]
    assert rows[:2] == [("u", n_tokens, 0, 0, 200), (None, n_tokens, 0, 0, 200)]


async def test_the_description_fits_what_is_sent() -> None:
    async with client_of(app_of()) as client:
        described = (await client.get("/openapi.json")).json()
    assert set(described["components"]["schemas"]["ScoreBody"]["properties"]) >= {*CHOICES, *LABELS, "pairs"}
    assert "/v1/score" in described["paths"]
    for body in (CHOICES, LABELS):
        answer = await scored(EchoEngine(), body)
        assert set(answer) <= set(described["components"]["schemas"]["Scores"]["properties"])
        assert json.dumps(answer)
