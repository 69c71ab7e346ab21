import re
from pathlib import Path

import pytest
from tests.clients import environments

PAGE = Path(__file__).resolve().parents[2] / "docs" / "compatibility.md"
PINS = {
    "openai-python": "openai",
    "openai-python `AzureOpenAI`": "openai",
    "scale-gp-beta": "scale-gp-beta",
    "lm-eval `local-completions`": "lm-eval",
    "lm-eval with our `afterword.lm_eval_model`": "lm-eval",
    "lm-eval `gguf`": "lm-eval",
    "HELM `OpenAILegacyCompletionsClient`": "crfm-helm",
    "Inspect AI": "inspect-ai",
    "GuideLLM": "guidellm",
    "LangChain `langchain-openai`": "langchain-openai",
    "litellm": "litellm",
    "dspy": "dspy",
    "llm": "llm",
    "llama-index `OpenAILike`": "llama-index-llms-openai-like",
}


def test_an_environment_counts_only_when_it_was_finished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert environments.environment("openai-0") is None
    folder = environments._folder("openai-0")
    folder.mkdir(parents=True)
    assert environments.environment("openai-0") is None
    (folder / ".complete").touch()
    assert environments.environment("openai-0") == folder
    assert environments.build("openai-0") == folder


def test_other_requirements_are_another_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environments, "REQUIREMENTS", tmp_path)
    (tmp_path / "some.txt").write_text("package==1\n")
    first = environments._folder("some")
    (tmp_path / "some.txt").write_text("package==2\n")
    assert environments._folder("some") != first


def test_every_requirement_is_pinned() -> None:
    lines = [
        line
        for name in environments.NAMES
        for line in (environments.REQUIREMENTS / f"{name}.txt").read_text().splitlines()
        if not line.startswith("#")
    ]
    assert [line for line in lines if re.fullmatch(r"[a-z0-9._-]+(\[[a-z0-9,-]+\])?==\S+", line) is None] == []


def test_the_page_names_the_versions_that_are_run() -> None:
    pinned = PAGE.parents[1] / "requirements-dev.lock"
    files = [pinned, *environments.REQUIREMENTS.glob("*.txt")]
    pins = set(re.findall(r"^([a-z0-9._-]+)==([^\s;]+)", "\n".join(file.read_text() for file in files), re.MULTILINE))
    python = PAGE.read_text().split("## Python\n")[1].split("\n## ")[0]
    rows = re.findall(r"^\| ([^|]+?) \| (\d[^|]*?) \|", python, re.MULTILINE)
    assert {client for client, _ in rows} == set(PINS)
    assert [row for row in rows if (PINS[row[0]], row[1]) not in pins] == []
