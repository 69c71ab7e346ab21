"""A suffix for a model that can fill in the middle."""

from pathlib import Path

import httpx
import pytest
from tests.cases.wellformed import body_of, check_error
from tests.live import run_server
from tests.models.tiny import Tiny, write_tiny

from afterword.api.app import create_app
from afterword.config.load import load_config
from afterword.config.tree import ServerConfig
from afterword.loading.load_registry import load_registry

pytestmark = pytest.mark.model

TINY = Tiny(infill=True)
THE = 256 + 4
"""Its token ` the`."""


def test_suffix_01_a_model_with_infill_tokens_fills_in(tmp_path: Path) -> None:
    flags = {"model": str(write_tiny(tmp_path, TINY)), "context": "256", "parallel": "2", "cache_dir": str(tmp_path)}
    registry = load_registry(load_config(flags, {}, tmp_path))
    body = {"prompt": "ab", "suffix": "c", "max_tokens": 2, "temperature": 0, "logit_bias": {str(THE): 100}}
    with (
        run_server(create_app(registry, ServerConfig())) as url,
        httpx.Client(base_url=url, timeout=60) as http,
    ):
        answer = body_of(http.post("/v1/completions", json=body))
        echoed = body_of(http.post("/v1/completions", json=body | {"echo": True}))
        scored = http.post("/v1/completions", json=body | {"echo": True, "logprobs": 1})
    # Three marks, two bytes before the gap and one behind it; neither is repeated in the text.
    assert answer["usage"]["prompt_tokens"] == 6
    assert answer["choices"][0]["text"] == " the the"
    assert echoed["choices"][0]["text"] == "ab the the"
    assert check_error(scored, 400)["param"] == "suffix"
