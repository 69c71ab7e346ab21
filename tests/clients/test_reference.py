"""What the API reference shows for this endpoint runs as it stands, but for address and key.

It asks for a retired model: docs/rules.md#retired-names.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest

pytestmark = pytest.mark.model

PROGRAMS = Path(__file__).parent / "programs" / "reference"
NODE = Path(__file__).parent / "node"
RETIRED = "gpt-3.5-turbo-instruct"

NEEDS_NODE = [
    pytest.mark.clients,
    pytest.mark.skipif(
        shutil.which("node") is None or not (NODE / "node_modules").is_dir(),
        reason="node or the packages of tests/clients/node are not installed",
    ),
]

RUBY_SDK = os.environ.get("AFTERWORD_TEST_OPENAI_RUBY")
"""A checkout of openai-ruby; Debian's `ruby-connection-pool` is what else it needs."""
RUBY = ("ruby", "-I", f"{RUBY_SDK}/lib")
NEEDS_RUBY = [
    pytest.mark.clients,
    pytest.mark.skipif(shutil.which("ruby") is None, reason="ruby is not installed"),
    pytest.mark.skipif(RUBY_SDK is None, reason="AFTERWORD_TEST_OPENAI_RUBY names no checkout of openai-ruby"),
]


def run(server: str, *command: str | Path) -> str:
    """What a program prints that finds the server as the SDKs do: through the environment."""
    environment = {**os.environ, "OPENAI_BASE_URL": f"{server}/v1", "OPENAI_API_KEY": "unused", "NO_PROXY": "127.0.0.1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def expected(server: str) -> dict[str, Any]:
    """What the model answers under its own name."""
    body = {"model": "smollm2-135m-instruct", "prompt": "Say this is a test", "max_tokens": 7, "temperature": 0}
    answer: dict[str, Any] = httpx.post(f"{server}/v1/completions", json=body, timeout=60).raise_for_status().json()
    return answer


@pytest.mark.parametrize(
    "command",
    [
        pytest.param(("sh", PROGRAMS / "completion.sh"), id="curl"),
        pytest.param((sys.executable, PROGRAMS / "completion.py"), id="python"),
        pytest.param(("node", NODE / "reference.mjs"), id="node", marks=NEEDS_NODE),
        pytest.param((*RUBY, PROGRAMS / "completion.rb"), id="ruby", marks=NEEDS_RUBY),
    ],
)
def test_an_example_gets_the_default_model_s_answer(
    server: str, command: tuple[str | Path, ...], expected: dict[str, Any]
) -> None:
    body = json.loads(run(server, *command))
    assert body["model"] == "smollm2-135m-instruct"
    assert body["choices"] == expected["choices"]
    assert body["usage"]["completion_tokens"] == 7


@pytest.mark.parametrize(
    "command",
    [
        pytest.param((sys.executable, PROGRAMS / "stream.py"), id="python"),
        pytest.param(("node", NODE / "reference-stream.mjs"), id="node", marks=NEEDS_NODE),
        pytest.param((*RUBY, PROGRAMS / "stream.rb"), id="ruby", marks=NEEDS_RUBY),
    ],
)
def test_an_example_of_a_stream_prints_the_same_text(
    server: str, command: tuple[str | Path, ...], expected: dict[str, Any]
) -> None:
    lines = run(server, *command).removesuffix("\n").split("\n")
    assert "".join(lines) == expected["choices"][0]["text"].replace("\n", "")


def test_the_models_route_lists_the_retired_names(server: str) -> None:
    [card] = httpx.get(f"{server}/v1/models").json()["data"]
    assert card["aliases"] == ["default", RETIRED, "davinci-002", "babbage-002"]
    assert httpx.get(f"{server}/v1/models/{RETIRED}").json()["id"] == card["id"]
