"""Real Node clients against a live server: each script prints what its client made of the answers.

The scripts say what is asked; this file says what must come out. `make test-clients` installs the packages.
"""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.api.served import CREATED, is_idle, wait_until
from tests.live import run_server
from tests.models.tiny import Tiny, write_tiny
from tests.test_readme import ADDRESS, block

from afterword.api.app import create_app
from afterword.config.tree import ServerConfig
from afterword.engine.base import Engine
from afterword.engine.echo import EchoEngine
from afterword.engine.llama.llama_loading import LlamaSettings, load_engine
from afterword.gateway.opening import single_key_gateway
from afterword.registry import Registry, ServedModel
from afterword.text.infill_template import parse_template

HERE = Path(__file__).resolve().parent
KEY = "k-1"

pytestmark = [
    pytest.mark.clients,
    pytest.mark.skipif(
        shutil.which("node") is None or not (HERE / "node_modules").is_dir(),
        reason="node or the packages of tests/clients/node are not installed",
    ),
]


@dataclass(frozen=True, slots=True)
class Served:
    """A running server and the engines behind it, which write a token every few milliseconds."""

    url: str
    echo: EchoEngine
    template: EchoEngine
    infill: Engine

    def run(self, script: str) -> dict[str, Any]:
        """What a script found, and under `left` how many candidates of each echo engine its client walked away from."""
        before = self._cancelled()
        done = subprocess.run(
            ["node", HERE / script, self.url, KEY],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
            env={"PATH": os.environ["PATH"], "NO_COLOR": "1"},
        )
        assert done.returncode == 0, done.stderr
        found: dict[str, Any] = json.loads(done.stdout)
        wait_until(self.url, lambda: is_idle(self.echo) and is_idle(self.template))
        found["left"] = [now - then for now, then in zip(self._cancelled(), before, strict=True)]
        return found

    def _cancelled(self) -> list[int]:
        return [self.echo.stats().cancelled, self.template.stats().cancelled]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Models `echo`, `template` and `infill`: the first cannot fill a gap, the others can, each in its own way."""
    echo, template = EchoEngine(token_delay=0.005), EchoEngine(token_delay=0.005)
    infill = infill_engine(tmp_path_factory.mktemp("infill"))
    models = [
        ServedModel("echo", echo, CREATED),
        ServedModel("template", template, CREATED, infill_template=parse_template("[{prefix}|{suffix}]")),
        ServedModel("infill", infill, CREATED),
    ]
    with run_server(create_app(Registry(models), ServerConfig(), single_key_gateway(KEY))) as url:
        yield Served(url, echo, template, infill)


def infill_engine(directory: Path) -> Engine:
    """A model with fill-in-the-middle tokens and random weights."""
    path = write_tiny(directory, Tiny(infill=True))
    settings = LlamaSettings(
        path=path,
        context=256,
        parallel=2,
        threads=1,
        max_waiting=8,
        memory_bytes=None,
        cache_dir=directory,
        kernels="own",
    )
    return load_engine(settings)


def test_the_official_sdk(served: Served) -> None:
    found = served.run("openai.mjs")
    whole, stream = found.pop("everyField"), found.pop("stream")
    assert found == {
        "batch": [[0, "ab"], [1, "ab"], [2, "cd"], [3, "cd"]],
        "tokens": "hihi",
        "aborted": "hel",
        "requestId": True,
        "refused": ["BadRequestError", 400, "invalid_request_error", "temperature", "decimal_above_max_value"],
        "refusedStream": ["NotFoundError", "model_not_found"],
        "locked": "AuthenticationError",
        "models": ["echo", "template", "infill"],
        "left": [1, 0],
    }
    [choice] = whole["choices"]
    assert (choice["text"], choice["index"], choice["finish_reason"]) == ("hello hell", 0, "length")
    assert choice["logprobs"]["tokens"] == list("hello hell")
    assert choice["logprobs"]["text_offset"] == list(range(10))
    assert choice["logprobs"]["token_logprobs"][0] is None
    assert (whole["usage"]["prompt_tokens"], whole["usage"]["completion_tokens"]) == (6, 8)
    *chunks, last = stream
    assert [[chunk["choices"][0]["text"], chunk["choices"][0]["finish_reason"]] for chunk in chunks] == [
        ["h", None],
        ["e", None],
        ["l", None],
        ["l", "length"],
    ]
    assert [chunk["choices"][0]["logprobs"]["text_offset"] for chunk in chunks] == [[6], [7], [8], [9]]
    assert (last["choices"], last["usage"]["total_tokens"]) == ([], 10)


def test_the_example_of_the_first_page() -> None:
    models = [ServedModel("echo", EchoEngine(), CREATED, aliases=("default",))]
    with run_server(create_app(Registry(models), ServerConfig())) as url:
        program = block("js", "OpenAI(").replace(ADDRESS, url)
        command = ["node", "--input-type=module", "--eval", program]
        done = subprocess.run(command, cwd=HERE, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "1, 2, 3,\n"


def test_langchain(served: Served) -> None:
    assert served.run("langchain.mjs") == {
        "invoke": "hell",
        "batch": {
            "texts": [["abab", "abab"], ["cdcd", "cdcd"]],
            "reasons": [["length", "length"], ["length", "length"]],
            "usage": {"completionTokens": 16, "promptTokens": 4, "totalTokens": 20},
        },
        "stream": "h|e|l|l",
        "stop": "he",
        "refused": "model_not_found",
        "left": [0, 0],
    }


def test_the_ai_sdk(served: Served) -> None:
    found = served.run("ai-sdk.mjs")
    refused = found.pop("refused")
    # The SDK frames the prompt as `user:\nhello\n\nassistant:\n`, which the echo model starts again.
    plain = {"text": "user:", "finishReason": "length", "input": 24, "output": 5, "model": "echo"}
    stream = {"text": "user:", "finishReason": "length", "input": 24, "output": 5, "errors": []}
    assert found == {
        "compatiblePlain": plain,
        "compatibleStream": stream,
        "openaiPlain": plain,
        "openaiStream": stream,
        "extension": "user:",
        "left": [0, 0],
    }
    assert refused["status"] == 400
    assert (refused["data"]["error"]["param"], refused["message"]) == (
        "temperature",
        refused["data"]["error"]["message"],
    )


def test_continue(served: Served) -> None:
    found = served.run("continue.mjs")
    assert found == {
        # `]` stops it: what the model was given ends there.
        "template": "[a = (|)",
        "marks": filled(served, "a = (", ")"),
        "legacy": "hello",
        "legacyPlain": "hello",
        "legacyAborted": "hel",
        "fimAborted": "[he",
        "left": [1, 1],
    }


def filled(served: Served, before: str, after: str) -> str:
    """What the infill model writes when its marks are put around both texts by hand."""
    tokenizer = served.infill.tokenizer
    marks = tokenizer.infill
    assert marks is not None
    first, second = (tokenizer.encode(text, add_bos=False, parse_special=False) for text in (before, after))
    body = {
        "model": "infill",
        "prompt": [marks.prefix, *first, marks.suffix, *second, marks.middle],
        "max_tokens": 12,
        "temperature": 0,
    }
    answer = httpx.post(f"{served.url}/v1/completions", json=body, headers={"api-key": KEY}).json()
    text: str = answer["choices"][0]["text"]
    assert len(text) >= 12
    return text
