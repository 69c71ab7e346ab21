"""With two replicas as much of the prompts is found in a cache as with one (default model, workloads of an evaluation
harness and of editors)."""

import random
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest
from tests.cluster.live.conftest import Deploy
from tests.live import run_server

from afterword.api.app import create_app
from afterword.config.load import load_config
from afterword.loading.load_registry import load_registry

pytestmark = [pytest.mark.cluster, pytest.mark.model]

SETTINGS = {"threads": "1", "context": "1024", "parallel": "8", "memory": "1GiB"}


def words(n: int, chance: random.Random) -> str:
    """Some three tokens each."""
    return " ".join(str(chance.randrange(100)) for _ in range(n))


def scoring(chance: random.Random) -> list[list[dict[str, Any]]]:
    """Multiple choice: contexts with four endings each. Requests one after another within a list, lists at once."""
    asked = []
    for _ in range(6):
        context = words(50, chance)
        asked += [f"{context} {words(6, chance)}" for _ in range(4)]
    bodies = [{"prompt": prompt, "max_tokens": 0, "echo": True, "logprobs": 1} for prompt in asked]
    return [bodies[lane::4] for lane in range(4)]


def typing(chance: random.Random) -> list[list[dict[str, Any]]]:
    """Two editors: each keystroke sends the whole file again, two words longer."""
    lanes: list[list[dict[str, Any]]] = []
    for _ in range(2):
        text = words(120, chance)
        lanes.append([])
        for _ in range(6):
            text += " " + words(2, chance)
            lanes[-1].append({"prompt": text, "max_tokens": 4, "temperature": 0})
    return lanes


def cached_share(url: str, lanes: Sequence[Sequence[dict[str, Any]]]) -> float:
    """Prompt tokens that were found in a cache, of all."""

    def run(lane: Sequence[dict[str, Any]]) -> list[tuple[int, int]]:
        usages = [client.post("/v1/completions", json=body).json()["usage"] for body in lane]
        return [(usage["prompt_tokens_details"]["cached_tokens"], usage["prompt_tokens"]) for usage in usages]

    with httpx.Client(base_url=url, timeout=120) as client, ThreadPoolExecutor(len(lanes)) as pool:
        counts = [count for counts in pool.map(run, lanes) for count in counts]
    return sum(cached for cached, _ in counts) / sum(prompt for _, prompt in counts)


@pytest.fixture(scope="module")
def single(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    config = load_config({**SETTINGS, "database": "none"}, {}, tmp_path_factory.mktemp("single"))
    with run_server(create_app(load_registry(config), config.server)) as url:
        yield url


@pytest.fixture(scope="module")
def pair(deploy_server: Deploy, tmp_path_factory: pytest.TempPathFactory) -> str:
    return deploy_server(tmp_path_factory.mktemp("pair"), **SETTINGS, min_replicas="2", max_replicas="2").url


@pytest.mark.parametrize("workload", [scoring, typing], ids=lambda workload: workload.__name__)
def test_two_replicas_find_as_much_as_one(
    single: str, pair: str, workload: Callable[[random.Random], list[list[dict[str, Any]]]]
) -> None:
    alone, shared = cached_share(single, workload(random.Random(1))), cached_share(pair, workload(random.Random(1)))
    assert alone > 0.4
    assert shared >= 0.9 * alone, (alone, shared)
