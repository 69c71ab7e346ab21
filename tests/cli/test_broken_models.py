"""Files that llama.cpp has assertions about: one sentence and exit code 2, as its own process."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from gguf import GGUFWriter
from tests.models.tiny import Tiny, write_tiny

SOURCES = Path(__file__).resolve().parents[2] / "src"


def serve(folder: Path, file: Path, *options: str) -> "subprocess.CompletedProcess[str]":
    """`afterword serve` with a model that it must refuse."""
    command = [sys.executable, "-c", "from afterword.cli.main import app; app()", "serve", "--model", str(file)]
    return subprocess.run(
        [*command, "--port", "0", "--context", "256", "--threads", "1", *options],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(SOURCES)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.parametrize(
    ("method", "value"),
    [
        pytest.param("add_token_list", None, id="native-03 two tokens spelled alike"),
        pytest.param("add_tokenizer_model", "no_vocab", id="native-04 no vocabulary"),
        pytest.param("add_block_count", 0, id="native-05 no layers"),
        pytest.param("add_block_count", 600, id="native-05 more layers than there can be"),
        pytest.param("add_layer_norm_rms_eps", -1.0, id="native-05 a negative epsilon"),
        pytest.param("add_layer_norm_rms_eps", float("nan"), id="native-05 an epsilon that is no number"),
    ],
)
def test_a_file_that_llama_cpp_cannot_load_is_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str, value: Any
) -> None:
    real = getattr(GGUFWriter, method)

    def changed(writer: GGUFWriter, given: Any) -> None:
        real(writer, [*given[:-1], given[0]] if value is None else value)

    monkeypatch.setattr(GGUFWriter, method, changed)
    file = write_tiny(tmp_path, Tiny())
    done = serve(tmp_path, file)
    assert done.returncode == 2, done.stderr
    assert done.stdout == ""
    told = [line for line in done.stderr.splitlines() if line.startswith("Error: ")]
    assert len(told) == 1
    assert f"The model file {file} cannot be loaded: " in told[0]
    assert "Traceback" not in done.stderr
