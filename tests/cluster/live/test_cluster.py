"""Two nodes, two replicas of the echo engine: streams, a replica's death, a rolling restart, counters."""

import os
import signal
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from threading import Event
from typing import Any

import httpx
import pytest
from openai import OpenAI
from tests.cluster.live.conftest import Live, deployed, stream

pytestmark = pytest.mark.cluster

LONG = 4000
"""Tokens: with the delay below, a stream of some seconds."""


@pytest.fixture(scope="module")
def live(cluster_address: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    folder = tmp_path_factory.mktemp("echo")
    (folder / "afterword.toml").write_text("[[models]]\npath = 'echo'\naliases = ['default']\n")
    with deployed(cluster_address, folder, min_replicas="2", max_replicas="2", parallel="64", context="8192") as server:
        yield server


def replicas() -> dict[str, int]:
    """Process ids of the engine replicas by their ids, as Ray's own books have them."""
    from ray._private.state import actors

    return {
        actor["Name"].rpartition("#")[2]: actor["Pid"]
        for actor in actors().values()
        if actor["Name"].startswith("SERVE_REPLICA::afterword-echo#engine#") and actor["State"] == "ALIVE"
    }


def test_answers_are_those_of_a_single_server(live: Live) -> None:
    client = OpenAI(base_url=f"{live.url}/v1", api_key="none")
    answer = client.completions.create(
        model="default", prompt="abc", max_tokens=5, temperature=0, logprobs=2, echo=True
    )
    assert answer.choices[0].text == "abcabcab"
    assert answer.choices[0].logprobs is not None
    assert answer.choices[0].logprobs.tokens == list("abcabcab")
    ranked = client.completions.create(model="default", prompt="abc", max_tokens=5, n=2, best_of=4, seed=3)
    assert ranked.usage is not None
    assert (len(ranked.choices), ranked.usage.completion_tokens) == (2, 20)
    chunks = client.completions.create(model="default", prompt="abc", max_tokens=5, temperature=0, stream=True)
    assert "".join(chunk.choices[0].text for chunk in chunks) == "abcab"


def test_a_refusal_is_a_plain_answer(live: Live) -> None:
    response = live.client.post("/v1/completions", json={"prompt": "a", "n": 0})
    assert (response.status_code, response.json()["error"]["param"]) == (400, "n")


def test_both_replicas_serve_concurrent_streams(live: Live) -> None:
    before = live.samples()["afterword_engine_completion_tokens_total"]
    with ThreadPoolExecutor(24) as pool:
        texts = list(pool.map(lambda i: "".join(c["choices"][0]["text"] for c in one(live, i)), range(24)))
    assert [len(text) for text in texts] == [200] * 24
    until(lambda: sum(grown(live, before).values()) >= 24 * 200)
    assert sorted(grown(live, before)) == sorted(replicas())


def one(live: Live, number: int) -> Iterator[dict[str, Any]]:
    return stream(live.client, prompt=f"{number:03} " * 50, max_tokens=200, temperature=0)


def grown(live: Live, before: dict[str, float]) -> dict[str, float]:
    """How much each replica has sampled since, those that have not left out."""
    now = live.samples()["afterword_engine_completion_tokens_total"]
    return {name: value - before.get(name, 0.0) for name, value in now.items() if value > before.get(name, 0.0)}


def until(condition: Any, seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.2)


def test_a_client_that_leaves_ends_its_work(live: Live) -> None:
    with live.client.stream(
        "POST", "/v1/completions", json={"prompt": "x" * 50, "max_tokens": 8000, "stream": True, "n": 8}
    ) as response:
        next(response.iter_lines())
    until(lambda: sum(live.samples()["afterword_engine_running"].values()) == 0)


def test_killing_a_replica_loses_only_what_it_ran(live: Live) -> None:
    doomed, pid = next(iter(replicas().items()))
    started = Event()

    def run(number: int) -> str:
        last: dict[str, Any] = {}
        # Prompts of one letter each, so that they spread over both replicas.
        for chunk in stream(live.client, prompt=chr(97 + number) * 64, max_tokens=6000, temperature=0):
            last = chunk
            started.set()
        if "error" in last:
            assert (last["error"]["type"], "gone" in last["error"]["message"]) == ("server_error", True)
            return "lost"
        assert last["choices"][0]["finish_reason"] == "length"
        return "whole"

    with ThreadPoolExecutor(16) as pool:
        runs: list[Future[str]] = [pool.submit(run, number) for number in range(16)]
        assert started.wait(60)
        os.kill(pid, signal.SIGKILL)
        # Everything else answers meanwhile.
        for _ in range(10):
            assert live.client.post("/v1/completions", json={"prompt": "abc", "max_tokens": 2}).status_code == 200
        ends = [future.result() for future in runs]
    assert 0 < ends.count("lost") < 16, ends
    until(lambda: len(replicas()) == 2 and doomed not in replicas())
    assert live.client.post("/v1/completions", json={"prompt": "abc", "max_tokens": 2}).status_code == 200


def test_a_rolling_restart_under_load_fails_no_request(live: Live) -> None:
    before, stop = set(replicas()), Event()
    counts = {"plain": 0, "stream": 0}

    def plain() -> None:
        with httpx.Client(base_url=live.url, timeout=60) as client:
            while not stop.is_set():
                answer = client.post("/v1/completions", json={"prompt": "abc", "max_tokens": 50, "temperature": 0})
                assert answer.status_code == 200, answer.text
                counts["plain"] += 1

    def streamed() -> None:
        with httpx.Client(base_url=live.url, timeout=60) as client:
            while not stop.is_set():
                chunks = list(stream(client, prompt="abc", max_tokens=300, temperature=0))
                assert chunks[-1]["choices"][0]["finish_reason"] == "length"
                counts["stream"] += 1

    with ThreadPoolExecutor(4) as pool:
        clients = [pool.submit(work) for work in (plain, plain, streamed, streamed)]
        live.deploy()
        time.sleep(1)
        stop.set()
        for client in clients:
            client.result()
    assert not before & set(replicas())
    assert min(counts.values()) > 5, counts


def test_metrics_tell_replicas_apart_and_add_up(live: Live) -> None:
    before = live.samples().get("afterword_requests_total", {})
    for _ in range(3):
        live.client.post("/v1/completions", json={"prompt": "abc", "max_tokens": 1})
    until(lambda: sum(live.samples()["afterword_requests_total"].values()) >= sum(before.values()) + 3)
    assert set(live.samples()["afterword_engine_running"]) == set(replicas())


def test_folders_without_a_cluster_say_so(tmp_path: Path) -> None:
    from afterword.cluster.deploy import connected
    from afterword.errors import ConfigurationError

    with (
        pytest.raises(ConfigurationError, match=r"There is no Ray cluster at 127\.0\.0\.1:1: "),
        connected("127.0.0.1:1"),
    ):
        pass
