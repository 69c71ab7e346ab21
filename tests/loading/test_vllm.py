"""Models on vLLM, as far as that goes without vLLM: what it is told, and what is refused."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from afterword.config.load import load_config
from afterword.engine.vllm.vllm_loading import VllmSettings, check_options, engine_options
from afterword.errors import ConfigurationError
from afterword.loading.load_registry import load_registry
from afterword.loading.tokenizers import load_tokenizer
from afterword.loading.vllm import vllm_settings


def settings(tmp_path: Path, toml: str) -> VllmSettings:
    (tmp_path / "afterword.toml").write_text(toml)
    config = load_config({}, {}, tmp_path)
    return vllm_settings(config.models[0], config.engine.max_waiting)


def test_a_table_becomes_what_vllm_is_told(tmp_path: Path) -> None:
    toml = """
    [[models]]
    path = "org/model"
    engine = "vllm"
    context = 100
    parallel = 7
    [models.options]
    tensor_parallel_size = 2
    distributed_executor_backend = "ray"
    """
    assert engine_options(settings(tmp_path, toml)) == {
        "model": "org/model",
        "max_model_len": 101,
        "max_num_seqs": 7,
        "max_logprobs": 1000,
        "tensor_parallel_size": 2,
        "distributed_executor_backend": "ray",
        "runner": "generate",
        "logprobs_mode": "raw_logprobs",
        "disable_log_stats": True,
        "structured_outputs_config": {"backend": "guidance", "disable_any_whitespace": True},
    }


def test_the_models_own_context_is_left_to_vllm() -> None:
    assert "max_model_len" not in engine_options(VllmSettings("m", None, 1, 0, {}))


@pytest.mark.parametrize(("name", "value"), [("max_model_len", 64), ("max_num_seqs", 3), ("max_logprobs", 5)])
def test_options_come_before_the_general_settings(name: str, value: int) -> None:
    assert engine_options(VllmSettings("m", 10, 1, 0, {name: value}))[name] == value


def test_a_directory_beside_the_configuration_is_found(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    found = settings(tmp_path, "[[models]]\npath = 'model'\nengine = 'vllm'")
    assert found.model == str(tmp_path / "model")


@pytest.mark.parametrize("path", ["smollm2-135m-instruct", "some.gguf"])
def test_a_gguf_file_is_refused_with_the_way_out(tmp_path: Path, path: str) -> None:
    with pytest.raises(ConfigurationError, match="afterword models export"):
        settings(tmp_path, f"[[models]]\npath = '{path}'\nengine = 'vllm'")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        pytest.param({"logprobs_mode": "raw_logits"}, "'logprobs_mode': log-probabilities are always", id="owned"),
        pytest.param({"tensor_paralel_size": 2}, "did you mean 'tensor_parallel_size'", id="misspelt"),
        pytest.param({"zzz": 2}, "has no argument 'zzz'", id="unknown"),
    ],
)
def test_a_wrong_option_is_named(options: Mapping[str, Any], words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        check_options(options, frozenset({"tensor_parallel_size", "dtype"}))


@pytest.mark.parametrize("missing", ["vllm", "tokenizers"])
def test_without_vllm_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, missing: str) -> None:
    for module in ("vllm", "torch", "transformers", "tokenizers"):
        monkeypatch.setitem(sys.modules, module, None)
    (tmp_path / "afterword.toml").write_text("[[models]]\npath = 'org/model'\nengine = 'vllm'")
    config = load_config({}, {}, tmp_path)
    load = load_registry if missing == "vllm" else lambda config: load_tokenizer(config.models[0])
    with pytest.raises(ConfigurationError, match=r"not installed: install afterword\[vllm\]"):
        load(config)
