"""What the server has computed before must not show in what it answers."""

import pytest
from tests.cases.case import FRANCE, FRANCE_IDS, Body, Json
from tests.cases.conftest import Running
from tests.cases.wellformed import body_of

pytestmark = pytest.mark.model

LONG = FRANCE_IDS * 40


def choice(server: Running, body: Body) -> Json:
    answer: Json = body_of(server.post(body))["choices"][0]
    return answer


def test_logp_10_a_cached_prompt_is_scored_like_a_new_one(server: Running) -> None:
    scoring: Body = {"prompt": LONG, "echo": True, "logprobs": 1, "max_tokens": 1, "temperature": 0}
    server.post({"prompt": LONG, "max_tokens": 1, "temperature": 0})
    first, second = (choice(server, scoring)["logprobs"] for _ in range(2))
    assert len(first["tokens"]) == len(LONG) + 1
    assert first["tokens"] == second["tokens"]
    assert first["token_logprobs"][1:] == pytest.approx(second["token_logprobs"][1:], abs=1e-3)
    assert [list(top) for top in first["top_logprobs"][1:]] == [list(top) for top in second["top_logprobs"][1:]]


REUSING: list[Body] = [
    {"prompt": "The capital of France is Paris. The capital of Spain is"},
    {"prompt": "The capital of France is Paris. The capital of Italy is"},
    {"prompt": FRANCE},
    {"prompt": FRANCE},
    {"prompt": FRANCE_IDS * 25, "logprobs": 2},
    {"prompt": FRANCE_IDS * 26, "logprobs": 2, "echo": True},
    {"prompt": FRANCE_IDS * 25, "logprobs": 3, "echo": True, "max_tokens": 0},
    {"prompt": FRANCE_IDS * 26 + [260], "logprobs": 2, "n": 3, "temperature": 1},
]


def test_conc_05_a_used_server_answers_like_a_fresh_one(server: Running, fresh_server: Running) -> None:
    """In whatever order: the fresh one gets them backwards, so that it can reuse other parts."""
    bodies = [{"max_tokens": 8, "temperature": 0, "seed": 5} | body for body in REUSING]
    used = [body_of(server.post(body)) for body in bodies]
    fresh = [body_of(fresh_server.post(body)) for body in reversed(bodies)][::-1]
    for one, other in zip(used, fresh, strict=True):
        assert one["choices"] == other["choices"]
        assert one["system_fingerprint"] == other["system_fingerprint"]
    assert used[2]["choices"] == used[3]["choices"]
    # The whole prompt was there, and its last token had to be computed again to have something to sample from.
    assert used[3]["usage"]["prompt_tokens_details"]["cached_tokens"] == 4


def test_prompt_02_a_batch_gets_what_its_prompts_get_alone(server: Running) -> None:
    prompts = ["Hello", FRANCE, "2 + 2 =", "", FRANCE]
    batch = body_of(server.post({"prompt": prompts, "max_tokens": 4, "temperature": 0, "seed": 1}))["choices"]
    alone = [choice(server, {"prompt": p, "max_tokens": 4, "temperature": 0, "seed": 1}) for p in prompts]
    assert [one["text"] for one in batch] == [one["text"] for one in alone]
    assert [one["index"] for one in batch] == [0, 1, 2, 3, 4]
