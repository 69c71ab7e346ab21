"""Which copy of the weights is loaded. The default model's file is Q4_1, a type without fast kernels."""

import json
from pathlib import Path

import pytest
from tests.models.tiny import Tiny, write_tiny

from afterword.config.model import DEFAULT_MODEL
from afterword.config.tree import Layout
from afterword.engine.identity import Notebook
from afterword.engine.llama import layout
from afterword.engine.llama.binding import build_info
from afterword.engine.llama.layout import NAMES, Q8_0_FILE_TYPE, load_weights
from afterword.loading.embedded import model_file

pytestmark = pytest.mark.model

IDENTITY = ("0123456789abcdef" * 4, build_info(), 1)
QUESTION = f"faster of original and {NAMES['split']} {IDENTITY}"
Q4_1_FILE_TYPE = 3


@pytest.fixture
def notebook(tmp_path: Path) -> Notebook:
    return Notebook(tmp_path / "cache")


def loaded(path: Path, wanted: Layout, notebook: Notebook) -> tuple[str, int]:
    """(layout, file type) of what is loaded."""
    weights = load_weights(path, wanted, IDENTITY, notebook)
    try:
        return weights.layout, weights.model.file_type
    finally:
        weights.model.close()


def test_original_is_the_file_itself(short_model: Path, notebook: Notebook) -> None:
    assert loaded(short_model, "original", notebook) == ("original", Q4_1_FILE_TYPE)
    assert not notebook.directory.exists()


def test_q8_0_is_a_copy_that_is_written_once(short_model: Path, notebook: Notebook) -> None:
    assert loaded(short_model, "q8_0", notebook) == ("q8_0", Q8_0_FILE_TYPE)
    (copy,) = notebook.directory.iterdir()
    assert copy.name == "SmolLM2-135M-Instruct.Q4_1-0123456789abcdef-q8_0.gguf"
    written_at = copy.stat().st_mtime_ns
    assert loaded(short_model, "q8_0", notebook) == ("q8_0", Q8_0_FILE_TYPE)
    assert copy.stat().st_mtime_ns == written_at


def test_split_is_a_copy_in_two_files_that_answers_as_the_original(notebook: Notebook) -> None:
    # That it does is checked before they are written: MOST_KL.
    assert loaded(model_file(DEFAULT_MODEL.name), "split", notebook) == ("split", Q4_1_FILE_TYPE)
    stem = f"SmolLM2-135M-Instruct.Q4_1-0123456789abcdef-{NAMES['split']}"
    assert sorted(path.name for path in notebook.directory.iterdir()) == [f"{stem}-offsets.gguf", f"{stem}.gguf"]


def test_auto_times_the_copy_once_and_keeps_to_the_verdict(short_model: Path, notebook: Notebook) -> None:
    first = loaded(short_model, "auto", notebook)
    (note,) = json.loads((notebook.directory / "notebook.json").read_text()).items()
    assert note == (QUESTION, first[0])
    notes = (notebook.directory / "notebook.json").stat().st_mtime_ns
    assert loaded(short_model, "auto", notebook) == first
    assert (notebook.directory / "notebook.json").stat().st_mtime_ns == notes


@pytest.mark.parametrize("verdict", ["original", "split"])
def test_auto_loads_what_was_found_faster(short_model: Path, notebook: Notebook, verdict: str) -> None:
    notebook.recall(QUESTION, lambda: verdict)
    assert loaded(short_model, "auto", notebook)[0] == verdict


def test_auto_leaves_a_fast_type_alone(short_model: Path, notebook: Notebook) -> None:
    assert loaded(short_model, "q8_0", notebook) == ("q8_0", Q8_0_FILE_TYPE)
    (copy,) = notebook.directory.iterdir()
    fast = load_weights(copy, "auto", IDENTITY, notebook)
    assert fast.layout == "original"
    fast.model.close()
    assert [path.name for path in notebook.directory.iterdir()] == [copy.name]


def test_directory_that_cannot_be_written_means_the_original(short_model: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert loaded(short_model, "q8_0", Notebook(tmp_path / "file")) == ("original", Q4_1_FILE_TYPE)


@pytest.mark.parametrize("weights", ["Q8_0", "Q4_0"])
def test_file_without_matrices_to_split_is_loaded_as_it_is(tmp_path: Path, notebook: Notebook, weights: str) -> None:
    found = load_weights(write_tiny(tmp_path, Tiny(weights)), "split", IDENTITY, notebook)
    assert found.layout == "original"
    found.model.close()
    assert list(notebook.directory.iterdir()) == []


def test_copy_that_answers_otherwise_is_not_used_and_not_tried_again(
    tmp_path: Path, notebook: Notebook, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Nothing is within that of the original.
    monkeypatch.setattr(layout, "MOST_KL", -1.0)
    path = write_tiny(tmp_path, Tiny("Q4_1"))
    for _ in range(2):
        found = load_weights(path, "auto", IDENTITY, notebook)
        assert found.layout == "original"
        found.model.close()
    assert json.loads((notebook.directory / "notebook.json").read_text()) == {QUESTION: "original"}
    assert [path.name for path in notebook.directory.iterdir()] == ["notebook.json"]
