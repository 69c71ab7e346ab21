"""`afterword models`: a line a model, from the files' headers."""

from pathlib import Path

import pytest
from tests.cli.conftest import Afterword

TOML = """
[[models]]
path = "smollm2-135m-instruct"
aliases = ["a", "b"]
infill_template = "{prefix}{suffix}"
[[models]]
path = "echo"
"""


def test_models_are_listed_with_what_their_headers_say(
    afterword: Afterword, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AFTERWORD_MODEL")
    (tmp_path / "afterword.toml").write_text(TOML)
    head, first, second = [line.split() for line in afterword("models").stdout.splitlines()]
    assert head == ["Name", "Aliases", "File", "Size", "Trained", "context", "Infill"]
    assert first[:3] == ["smollm2-135m-instruct", "a,", "b,"]
    assert first[3] == "default"
    assert first[4].endswith("/SmolLM2-135M-Instruct.Q4_1.gguf")
    assert first[5:] == ["94", "MiB", "8192", "template"]
    assert second == ["echo", "-", "-", "-", "-", "no"]


def test_a_file_that_is_no_model_is_named(afterword: Afterword, tmp_path: Path) -> None:
    (tmp_path / "x.gguf").write_bytes(b"not a model")
    result = afterword("models", "--model", "x.gguf")
    assert "x.gguf cannot be loaded: it begins with b'not ', not b'GGUF'." in result.stderr
    assert result.exit_code == 2


def test_cli_08_in_kubernetes_beside_a_service_of_that_name(
    afterword: Afterword, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AFTERWORD_PORT", "tcp://10.96.12.7:8000")
    monkeypatch.setenv("AFTERWORD_SERVICE_HOST", "10.96.12.7")
    result = afterword("models")
    assert result.exit_code == 0
    assert "echo" in result.stdout
    assert result.stderr.startswith("Warning: AFTERWORD_PORT is 'tcp://10.96.12.7:8000', the address of")
    assert result.stderr.count("\n") == 1
