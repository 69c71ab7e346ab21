"""Editors that complete code: what they send, and how strictly they read."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from tests.clients.replay.wire import KEY, Wire, require, require_completion, stream_of, text_of

ZED_STOPS = [
    "<|endoftext|>",
    "<|file_separator|>",
    "<|fim_pad|>",
    "<|fim_prefix|>",
    "<|fim_middle|>",
    "<|fim_suffix|>",
    "<fim_prefix>",
    "<fim_middle>",
    "<fim_suffix>",
    "<PRE>",
    "<SUF>",
    "<MID>",
    "[PREFIX]",
    "[SUFFIX]",
]

BEGIN, HOLE, END = (f"<\uff5cfim\u2581{mark}\uff5c>" for mark in ("begin", "hole", "end"))
"""Marks of a prompt format whose model Zed knows no stops for."""


@pytest.mark.parametrize(
    ("prompt", "text", "finish_reason"),
    [
        (
            f"{BEGIN}def f({HOLE}){END}",
            f"{BEGIN}def f({HOLE}){END}<",
            "length",
        ),
        ("def f(<PRE>)", "def f(", "stop"),
        ("<|fim_prefix|>def f(<|fim_suffix|>)<|fim_middle|>", "", "stop"),
    ],
    ids=["no stop", "stop within", "stop at once"],
)
def test_zed(wire: Wire, prompt: str, text: str, finish_reason: str) -> None:
    body = {"model": "echo", "prompt": prompt, "max_tokens": 64, "stop": ZED_STOPS, "temperature": 0}
    answer = wire.post(body).json()
    require_completion(answer)
    [choice] = answer["choices"]
    assert (choice["text"], choice["finish_reason"]) == (text, finish_reason)


@pytest.mark.parametrize(
    ("model", "suffix", "text"),
    [("echo", None, "x = ("), ("gap", ")", "[x = ")],
    ids=["suffix null", "suffix"],
)
def test_tabby_reads_up_to_the_first_finish_reason(wire: Wire, model: str, suffix: str | None, text: str) -> None:
    body = {
        "model": model,
        "prompt": "x = (",
        "suffix": suffix,
        "max_tokens": 5,
        "temperature": 0.0,
        "stream": True,
        "presence_penalty": 0.0,
    }
    response = wire.post(body, Accept="text/event-stream")
    assert response.headers["content-type"] == "text/event-stream"
    read = ""
    for line in response.text.splitlines():
        if line:
            # Until it has seen an end, anything that is not JSON with a string text is a panic.
            choice = json.loads(line.removeprefix("data:"))["choices"][0]
            require(choice, text=str)
            read += choice["text"]
            if choice["finish_reason"] is not None:
                break
    assert read == text


NEEDS_CURL = pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")


def curl(body: Path, url: str, *, max_time: str) -> subprocess.Popen[str]:
    """minuet's command line, running, with a body from a file."""
    command = ["curl", "-s", "-L", "--max-time", max_time, "-d", f"@{body}", url]
    for header in ("Content-Type: application/json", "Accept: application/json", f"Authorization: Bearer {KEY}"):
        command += ["-H", header]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def minuet_text(output: str) -> str:
    """Every line by itself: without its `data:` it is JSON or nothing."""
    texts = []
    for line in output.splitlines():
        data = line.removeprefix("data:").strip()
        if data not in ("", "[DONE]"):
            texts.append(json.loads(data)["choices"][0]["text"])
    return "".join(texts)


@NEEDS_CURL
@pytest.mark.parametrize("path", ["/v1/completions", "/v1/completions/"], ids=["plain", "slash"])
def test_minuet_asks_three_times_at_once(wire: Wire, path: str, tmp_path: Path) -> None:
    body = {
        "model": "gap",
        "stream": True,
        "prompt": "x = (",
        "suffix": ")",
        "max_tokens": 9,
        "top_p": 0.9,
        "temperature": 0,
        "stop": ["\n\n"],
    }
    file = tmp_path / "body.json"
    file.write_text(json.dumps(body))
    running = [curl(file, wire.url + path, max_time="60") for _ in range(3)]
    outputs = [one.communicate()[0] for one in running]
    assert [one.returncode for one in running] == [0, 0, 0]
    assert [minuet_text(output) for output in outputs] == ["[x = (|)]"] * 3


@NEEDS_CURL
def test_minuet_keeps_what_came_before_its_time_is_up(wire: Wire, tmp_path: Path) -> None:
    body = {"model": "slow", "stream": True, "prompt": "hello ", "max_tokens": 8000, "temperature": 0}
    file = tmp_path / "body.json"
    file.write_text(json.dumps(body))
    running = curl(file, wire.url + "/v1/completions", max_time="1")
    output = running.communicate()[0]
    assert running.returncode == 28
    # The last line may be cut anywhere.
    assert minuet_text(output.rpartition("\n")[0])[:2] == "he"


def test_void_fills_a_gap(wire: Wire) -> None:
    body = {
        "model": "gap",
        "prompt": "x = (",
        "suffix": ")",
        "stop": ["|", "\r\n"],
        "max_tokens": 300,
        "temperature": 0,
    }
    assert wire.post(body).json()["choices"][0]["text"] == "[x = ("


def test_llama_vscode(wire: Wire) -> None:
    body = {
        "model": "echo",
        "prompt": "<|fim_prefix|>a<|fim_suffix|>b<|fim_middle|>",
        "max_tokens": 4,
        "temperature": 0.1,
        "top_p": 0.99,
        "top_k": 40,
        "stream": False,
        "seed": 1,
        "n_predict": 128,
        "cache_prompt": True,
        "t_max_predict_ms": 250,
        "samplers": ["top_k", "top_p", "infill"],
    }
    [choice] = wire.post(body).json()["choices"]
    assert (choice["text"], choice["finish_reason"]) == ("<|fi", "length")


@pytest.mark.parametrize("model", [{"model": "echo"}, {}], ids=["lmstudio", "oobabooga"])
def test_twinny_may_name_no_model(wire: Wire, model: dict[str, str]) -> None:
    body = {**model, "prompt": "hello ", "stream": True, "temperature": 0, "max_tokens": 5, "options": {}}
    assert text_of(stream_of(wire.post(body))) == "hello"
