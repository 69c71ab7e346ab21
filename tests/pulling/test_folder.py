"""What is put into the folder of models and taken out of it."""

from pathlib import Path

import pytest

from afterword.config.models_folder import models_in
from afterword.errors import ConfigurationError
from afterword.pulling.folder import check_free, link, remove


def write(path: Path, content: bytes = b"12345") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def test_models_are_called_after_their_files(tmp_path: Path) -> None:
    for name in ("b.gguf", "a-00001-of-00002.gguf", "a-00002-of-00002.gguf", "notes.txt", "mmproj-b.gguf", "c.part"):
        write(tmp_path / name)
    (tmp_path / "d.gguf").mkdir()
    (tmp_path / "gone.gguf").symlink_to(tmp_path / "nothing")
    assert models_in(tmp_path) == {"a": tmp_path / "a-00001-of-00002.gguf", "b": tmp_path / "b.gguf"}
    assert models_in(tmp_path / "none") == {}


def test_links_replace_those_to_an_earlier_version(tmp_path: Path) -> None:
    for content in (b"old", b"new"):
        files = [write(tmp_path / content.decode() / f"m-0000{n}-of-00002.gguf", content) for n in (1, 2)]
        link(tmp_path / "models", files)
    there = sorted((tmp_path / "models").iterdir())
    assert [path.name for path in there] == ["m-00001-of-00002.gguf", "m-00002-of-00002.gguf"]
    assert {path.read_bytes() for path in there} == {b"new"}


def test_a_name_that_another_model_has_is_refused(tmp_path: Path) -> None:
    models = tmp_path / "models"
    link(models, [write(tmp_path / "blobs" / "m.gguf")])
    check_free(models, "other.gguf", None)
    check_free(models, "m.gguf", tmp_path / "blobs")
    for blobs in (None, tmp_path / "others"):
        with pytest.raises(ConfigurationError, match="another model called 'm': `afterword models rm m` removes it"):
            check_free(models, "m.gguf", blobs)


def test_all_files_of_a_model_are_removed_and_nothing_else(tmp_path: Path) -> None:
    for name in ("a-00001-of-00002.gguf", "a-00002-of-00002.gguf", "a.gguf.txt", "ab.gguf"):
        write(tmp_path / name)
    assert remove(tmp_path, "a") == 10
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.gguf.txt", "ab.gguf"]


def test_what_a_link_leads_to_outside_of_a_hubs_cache_stays(tmp_path: Path) -> None:
    file = write(tmp_path / "mine" / "m.gguf")
    link(tmp_path / "models", [file])
    assert remove(tmp_path / "models", "m") == 0
    assert (file.exists(), models_in(tmp_path / "models")) == (True, {})


def test_what_is_not_there_cannot_be_removed(tmp_path: Path) -> None:
    write(tmp_path / "m.gguf")
    with pytest.raises(ConfigurationError, match=r"has no model called '\.\./m'; it has m\."):
        remove(tmp_path, "../m")
