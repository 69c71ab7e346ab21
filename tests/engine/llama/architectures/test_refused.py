"""Architectures that are not served say so in one sentence when they are loaded."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.models.architectures import REFUSED, Refused
from tests.models.engines import settings
from tests.models.shaped import write_model

from afterword.engine.llama.llama_loading import load_engine
from afterword.errors import ConfigurationError

PROGRAM = "from afterword.cli.main import app; app()"


def is_one_sentence(text: str) -> bool:
    return re.fullmatch(r"The model [^\n]*\.", text) is not None and ". " not in text


@pytest.mark.parametrize(
    "architecture", [a for a in REFUSED if not a.aborts], ids=lambda architecture: architecture.name
)
def test_is_refused_in_one_sentence(architecture: Refused, tmp_path: Path) -> None:
    path = write_model(tmp_path / "model.gguf", architecture.name, architecture.values)
    with pytest.raises(ConfigurationError, match=architecture.reason) as caught:
        load_engine(settings(path, tmp_path))
    assert is_one_sentence(str(caught.value))


@pytest.mark.parametrize("architecture", [a for a in REFUSED if a.aborts], ids=lambda architecture: architecture.name)
def test_what_llama_cpp_aborts_at_is_refused_in_one_sentence_too(architecture: Refused, tmp_path: Path) -> None:
    path = write_model(tmp_path / "model.gguf", architecture.name, architecture.values)
    command = [sys.executable, "-c", PROGRAM, "serve", "--port", "0", "--model", str(path), "--parallel", "4"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=100)
    assert done.returncode == 2
    said = done.stderr.splitlines()[-1]
    assert said.startswith("Error: ")
    assert is_one_sentence(said.removeprefix("Error: "))
    assert architecture.reason in said
