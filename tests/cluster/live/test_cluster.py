"""Two nodes, two replicas of the echo engine: streams, a replica's death, a rolling restart, counters."""

import os
import signal
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from threading import Barrier, Event
from typing import Any

import httpx
import pytest
from openai import OpenAI
from tests.cluster.live.conftest import Deploy, Live, engine_replicas, until

pytestmark = pytest.mark.cluster

SAMPLED = "afterword_engine_completion_tokens_total"


@pytest.fixture(scope="module")
def live(deploy_server: Deploy, tmp_path_factory: pytest.TempPathFactory) -> Live:
    folder = tmp_path_factory.mktemp("echo")
    (folder / "afterword.toml").write_text("[[models]]\npath = 'echo'\naliases = ['default']\n")
    return deploy_server(folder, min_replicas="2", max_replicas="2", parallel="64", context="8192")


@pytest.fixture
def client(live: Live) -> Iterator[OpenAI]:
    with OpenAI(base_url=f"{live.url}/v1", api_key="none", max_retries=0) as opened:
        yield opened


def test_echo_and_log_probabilities_arrive_whole(client: OpenAI) -> None:
    answer = client.completions.create(
        model="default", prompt="abc", max_tokens=5, temperature=0, logprobs=2, echo=True
    ).choices[0]
    assert answer.text == "abcabcab"
    assert answer.logprobs is not None
    assert answer.logprobs.tokens == list("abcabcab")


def test_candidates_are_sampled_and_ranked(client: OpenAI) -> None:
    answer = client.completions.create(model="default", prompt="abc", max_tokens=5, n=2, best_of=4, seed=3)
    assert answer.usage is not None
    assert (len(answer.choices), answer.usage.completion_tokens) == (2, 20)


def test_the_prompts_of_a_batch_go_each_their_way(client: OpenAI) -> None:
    prompts = [letter * 40 for letter in "abcdefghijklmnop"]
    answer = client.completions.create(model="default", prompt=prompts, max_tokens=3, temperature=0)
    assert [choice.text for choice in answer.choices] == [prompt[:3] for prompt in prompts]


def test_a_stream_has_the_same_text(client: OpenAI) -> None:
    with client.completions.create(model="default", prompt="abc", max_tokens=5, temperature=0, stream=True) as chunks:
        assert "".join(chunk.choices[0].text for chunk in chunks) == "abcab"


@pytest.mark.parametrize(
    ("fields", "status", "named"),
    [
        pytest.param({"n": 0}, 400, ("n", "integer_below_min_value"), id="field"),
        pytest.param({"prompt": "a" * 9000}, 400, ("prompt", "context_length_exceeded"), id="context"),
        pytest.param({"model": "nobody"}, 404, ("model", "model_not_found"), id="model"),
    ],
)
def test_a_refusal_is_a_plain_answer(live: Live, fields: dict[str, Any], status: int, named: tuple[str, str]) -> None:
    response = live.client.post("/v1/completions", json={"prompt": "a", **fields})
    error = response.json()["error"]
    assert (response.status_code, (error["param"], error["code"])) == (status, named)


def test_the_clients_request_id_comes_back_once(live: Live) -> None:
    response = live.client.post("/v1/completions", json={"prompt": "a"}, headers={"x-request-id": "mine"})
    assert response.headers.get_list("x-request-id") == ["mine"]


def test_both_replicas_serve_concurrent_streams(live: Live) -> None:
    before = live.samples(SAMPLED)

    def one(number: int) -> str:
        chunks = live.stream(prompt=f"{number:03} " * 50, max_tokens=200, temperature=0)
        return "".join(chunk["choices"][0]["text"] for chunk in chunks)

    with ThreadPoolExecutor(24) as pool:
        texts = list(pool.map(one, range(24)))
    assert texts == [f"{number:03} " * 50 for number in range(24)]

    def sampled() -> dict[str, float]:
        return {name: value - before.get(name, 0.0) for name, value in live.samples(SAMPLED).items()}

    until(lambda: sum(sampled().values()) >= 24 * 200)
    assert sampled().keys() == engine_replicas().keys()
    assert min(sampled().values()) >= 5 * 200, sampled()


def test_a_client_that_leaves_ends_its_work(live: Live) -> None:
    before = sum(live.samples(SAMPLED).values())
    body = {"prompt": "x" * 50, "max_tokens": 8000, "stream": True, "n": 128}
    with live.client.stream("POST", "/v1/completions", json=body) as response:
        assert response.status_code == 200
        next(response.iter_lines())
    until(lambda: sum(live.samples(SAMPLED).values()) > before)
    until(lambda: sum(live.samples("afterword_engine_running").values()) == 0)
    assert sum(live.samples(SAMPLED).values()) - before < 128 * 8000 / 2


def test_killing_a_replica_loses_only_what_it_ran(live: Live) -> None:
    doomed, pid = next(iter(engine_replicas().items()))
    under_way = Barrier(9)

    def run(number: int) -> str:
        # Prompts of one letter each, so that they spread over both replicas.
        chunks = live.stream(prompt=chr(97 + number) * 64, max_tokens=4000, temperature=0)
        last = next(chunks)
        under_way.wait(60)
        for chunk in chunks:
            last = chunk
        if "error" in last:
            assert last["error"]["type"] == "server_error"
            assert last["error"].keys() == {"message", "type", "param", "code"}
            return "lost"
        assert last["choices"][0]["finish_reason"] == "length"
        return "whole"

    with ThreadPoolExecutor(8) as pool:
        runs: list[Future[str]] = [pool.submit(run, number) for number in range(8)]
        under_way.wait(60)
        os.kill(pid, signal.SIGKILL)
        # Whatever comes now is answered.
        for number in range(10):
            body = {"prompt": chr(97 + number) * 64, "max_tokens": 2}
            assert live.client.post("/v1/completions", json=body).status_code == 200
        ends = sorted(future.result() for future in runs)
    assert set(ends) == {"lost", "whole"}, ends
    until(lambda: len(engine_replicas()) == 2 and doomed not in engine_replicas())
    assert live.client.post("/v1/completions", json={"prompt": "abc", "max_tokens": 2}).status_code == 200


def test_a_rolling_restart_under_load_fails_no_request(live: Live) -> None:
    before, stop = engine_replicas().keys(), Event()
    counts = {"plain": 0, "stream": 0}

    def plain(client: httpx.Client) -> None:
        while not stop.is_set():
            answer = client.post("/v1/completions", json={"prompt": "abc", "max_tokens": 50, "temperature": 0})
            assert answer.status_code == 200, answer.text
            counts["plain"] += 1

    def streamed(client: httpx.Client) -> None:
        server = Live(live.url, client, live.redeploy)
        while not stop.is_set():
            chunks = list(server.stream(prompt="abc", max_tokens=300, temperature=0))
            assert "error" not in chunks[-1], chunks[-1]
            assert chunks[-1]["choices"][0]["finish_reason"] == "length"
            counts["stream"] += 1

    with ExitStack() as clients, ThreadPoolExecutor(4) as pool:
        opened = [clients.enter_context(httpx.Client(base_url=live.url, timeout=60)) for _ in range(4)]
        runs = [pool.submit(work, one) for work, one in zip((plain, plain, streamed, streamed), opened, strict=True)]
        try:
            live.redeploy()
        finally:
            stop.set()
        for run in runs:
            run.result()
    assert not before & engine_replicas().keys()
    assert min(counts.values()) > 5, counts


def test_metrics_tell_replicas_apart_and_add_up(live: Live) -> None:
    before = sum(live.samples("afterword_requests_total").values())
    for _ in range(3):
        live.client.post("/v1/completions", json={"prompt": "abc", "max_tokens": 1})
    until(lambda: sum(live.samples("afterword_requests_total").values()) >= before + 3)
    until(lambda: live.samples("afterword_engine_running").keys() == engine_replicas().keys())
