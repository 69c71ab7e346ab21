"""Models of vendors on a cluster: HTTP replicas ask them, and fall back from them to the engines that run here."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cluster.live.conftest import Deploy, Live, engine_replicas, until
from tests.live import run_server

from afterword.api.app import create_app
from afterword.config.load import load_config
from afterword.loading.load_registry import load_registry

pytestmark = pytest.mark.cluster

MODELS = """
[[vendors]]
name = "elsewhere"
kind = "afterword"
url = "{url}/v1"

[[vendors]]
name = "gone"
url = "http://127.0.0.1:1/v1"

[[models]]
name = "far"
vendor = "elsewhere"
upstream_model = "echo"

[[models]]
name = "either"
path = "echo"
vendor = ["gone", "local"]
"""


@pytest.fixture(scope="module")
def live(deploy_server: Deploy, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    folder: Path = tmp_path_factory.mktemp("vendors")
    config = load_config({"model": "echo", "database": "none"}, {}, folder)
    with run_server(create_app(load_registry(config), config.server)) as url:
        (folder / "afterword.toml").write_text(MODELS.format(url=url))
        yield deploy_server(folder, context="256")


@pytest.mark.parametrize("model", ["far", "either"])
def test_an_answer_comes_from_whoever_has_the_model(live: Live, model: str) -> None:
    body = {"model": model, "prompt": "abc", "max_tokens": 5, "temperature": 0}
    answer = live.client.post("/v1/completions", json=body)
    assert answer.json()["choices"][0]["text"] == "abcab", answer.text
    assert "".join(chunk["choices"][0]["text"] for chunk in live.stream(**body)) == "abcab"


def test_a_model_that_only_vendors_run_takes_no_replica(live: Live) -> None:
    names = [model["id"] for model in live.client.get("/v1/models").json()["data"]]
    assert names == ["far", "either"]
    # Those of an earlier deployment may take a moment to end.
    until(lambda: len(engine_replicas()) == 1)
