"""No answer tells where on the machine anything is."""

from pathlib import Path

import httpx
import pytest
from tests.live import run_server
from tests.models.tiny import Tiny, write_tiny

import afterword
from afterword.api.app import create_app
from afterword.completions.filter.load_filter import load_filter
from afterword.config.load import load_config
from afterword.gateway.opening import check_gateway, open_gateway
from afterword.loading.load_registry import load_registry

PATHS = ["/", "/v1", "/v1/models", "/v5/models", "/openai/models", "/health", "/ready", "/metrics", "/docs"]
PATHS += ["/openapi.json", "/tokenizer_info", "/playground/x/y.js", "/nothing", "/v1/models/tiny-F32", "/v1/engines"]


@pytest.fixture
def app(tmp_path: Path) -> object:
    """A server all of whose files are in `tmp_path`."""
    file = write_tiny(tmp_path, Tiny())
    filter_ = tmp_path / "words"
    filter_.write_text("forbidden\n")
    flags = {
        "model": str(file),
        "cache_dir": str(tmp_path / "cache"),
        "database": f"sqlite:///{tmp_path}/keys.db",
        "content_filter": str(filter_),
        "context": "256",
        "threads": "1",
    }
    config = load_config(flags, {}, tmp_path)
    check_gateway(config)
    return create_app(
        load_registry(config), config.server, open_gateway(config), load_filter(config.server.content_filter)
    )


def test_no_answer_has_a_path_of_this_machine(app: object, tmp_path: Path) -> None:
    own = [str(tmp_path), str(Path(afterword.__file__).parent), str(Path.home())]
    with run_server(app) as url, httpx.Client(base_url=url, timeout=60) as client:
        answers = [client.get(path) for path in PATHS]
        model = client.get("/v1/models").json()["data"][0]["id"]
        bodies: list[dict[str, object]] = [
            {"prompt": "hi"},
            {"prompt": "hi", "model": str(tmp_path / model)},
            {"prompt": "hi", "n": 0},
            {},
        ]
        answers += [client.post("/v1/completions", json=body | {"max_tokens": 2}) for body in bodies]
    told = [(answer.request.url.path, each) for answer in answers for each in own if each in answer.text]
    # The name that the client made up is its own.
    assert [path for path, each in told if path != "/v1/completions"] == []
    assert answers[2].json()["data"][0]["card"]["file"].endswith(".gguf")
    assert [answer.status_code for answer in answers].count(200) > 10
