"""The registry: how names find models, and how the configuration becomes engines."""

from pathlib import Path

import pytest

from afterword.config.load import load_config
from afterword.config.tree import Config
from afterword.config.values import Share
from afterword.engine.echo import EchoEngine
from afterword.errors import ConfigurationError, ModelNotFound
from afterword.loading.embedded import memory_budget, model_file
from afterword.loading.load_registry import load_registry
from afterword.machine import free_memory
from afterword.registry import Registry, ServedModel
from afterword.text.infill_template import parse_template

TWO = "[[models]]\npath = 'echo'\nname = 'a'\naliases = ['old']\n[[models]]\npath = 'echo'\nname = 'b'\n"


def configured(tmp_path: Path, toml: str) -> Config:
    (tmp_path / "afterword.toml").write_text(toml)
    return load_config({}, {}, tmp_path)


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ("a", "a"),
        ("b", "b"),
        ("old", "a"),
        ("local/a", "a"),
        ("local/b", "b"),
        (None, "a"),
        ("", "a"),
        (" \t", "a"),
        ("default", "a"),
    ],
)
def test_the_first_model_answers_for_a_missing_or_blank_name(tmp_path: Path, asked: str | None, found: str) -> None:
    assert load_registry(configured(tmp_path, TWO)).get(asked).name == found


@pytest.mark.parametrize("name", ["c", "A", "a ", "Default"])
def test_an_unknown_name_is_not_found(tmp_path: Path, name: str) -> None:
    with pytest.raises(ModelNotFound, match=f"'{name}'"):
        load_registry(configured(tmp_path, TWO)).get(name)


def test_a_registry_keeps_the_order_and_gives_no_hold_on_itself() -> None:
    engine = EchoEngine()
    registry = Registry([ServedModel("a", engine, 0), ServedModel("b", engine, 0)])
    registry.all().clear()
    assert [model.name for model in registry.all()] == ["a", "b"]


def test_an_engine_gets_the_room_its_model_is_configured_with(tmp_path: Path) -> None:
    toml = "[[models]]\npath = 'echo'\ncontext = 77\nparallel = 3\ninfill_template = '{prefix}_{suffix}'"
    (model,) = load_registry(configured(tmp_path, toml)).all()
    assert (model.engine.capabilities.context, model.engine.capabilities.n_slots) == (77, 3)
    assert (model.card, model.infill_template) == ({}, parse_template("{prefix}_{suffix}"))


def test_the_default_model_is_a_file_of_its_package() -> None:
    file = model_file("smollm2-135m-instruct")
    assert file.name == "SmolLM2-135M-Instruct.Q4_1.gguf"
    assert file.stat().st_size == 98362432


def test_a_missing_model_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"The model file .*/no\.gguf does not exist\."):
        load_registry(configured(tmp_path, "[[models]]\npath = 'no.gguf'"))


def test_a_budget_is_bytes_or_a_share_of_what_is_free() -> None:
    assert memory_budget(12345) == 12345
    assert 0 < memory_budget(Share(0.01)) < free_memory()
