"""Which copy of the weights is loaded. The default model's file is Q4_1, a type without fast kernels."""

from pathlib import Path

import pytest

from afterword.defaults import DEFAULT_MODEL
from afterword.engine.llama.binding import build_info
from afterword.engine.llama.identity import Notebook
from afterword.engine.llama.layout import Q8_0_FILE_TYPE, load_weights
from afterword.engine.llama.settings import Layout
from afterword.loading.embedded import model_file

pytestmark = pytest.mark.model

IDENTITY = ("0123456789abcdef" * 4, build_info(), 2)
Q4_1_FILE_TYPE = 3


@pytest.fixture
def notebook(tmp_path: Path) -> Notebook:
    return Notebook(tmp_path / "cache")


def loaded(layout: Layout, notebook: Notebook) -> tuple[str, int]:
    """(layout, file type) of what is loaded."""
    weights = load_weights(model_file(DEFAULT_MODEL.name), layout, IDENTITY, notebook)
    try:
        return weights.layout, weights.model.file_type
    finally:
        weights.model.close()


def test_original_is_the_file_itself(notebook: Notebook) -> None:
    assert loaded("original", notebook) == ("original", Q4_1_FILE_TYPE)
    assert not notebook.directory.exists()


def test_q8_0_is_a_copy_that_is_written_once(notebook: Notebook) -> None:
    assert loaded("q8_0", notebook) == ("q8_0", Q8_0_FILE_TYPE)
    (copy,) = notebook.directory.iterdir()
    assert copy.name == "SmolLM2-135M-Instruct.Q4_1-0123456789abcdef-q8_0.gguf"
    written_at = copy.stat().st_mtime_ns
    assert loaded("q8_0", notebook) == ("q8_0", Q8_0_FILE_TYPE)
    assert copy.stat().st_mtime_ns == written_at


@pytest.mark.parametrize(("verdict", "file_type"), [("original", Q4_1_FILE_TYPE), ("q8_0", Q8_0_FILE_TYPE)])
def test_auto_keeps_to_the_verdict_of_the_first_start(notebook: Notebook, verdict: str, file_type: int) -> None:
    notebook.recall(f"layout {IDENTITY}", lambda: verdict)
    assert loaded("auto", notebook) == (verdict, file_type)


def test_auto_leaves_a_fast_type_alone(notebook: Notebook) -> None:
    assert loaded("q8_0", notebook) == ("q8_0", Q8_0_FILE_TYPE)
    (copy,) = notebook.directory.iterdir()
    fast = load_weights(copy, "auto", IDENTITY, notebook)
    assert fast.layout == "original"
    fast.model.close()
    assert [path.name for path in notebook.directory.iterdir()] == [copy.name]


def test_directory_that_cannot_be_written_means_the_original(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert loaded("q8_0", Notebook(tmp_path / "file")) == ("original", Q4_1_FILE_TYPE)
