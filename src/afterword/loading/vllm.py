"""Models that run on vLLM. Knows no vLLM: its engine is imported only when a model of its kind is configured."""

import time
from pathlib import Path

from afterword.config.model import DEFAULT_MODEL, ModelConfig
from afterword.config.tree import EngineConfig
from afterword.engine.vllm.vllm_loading import NOT_REPRODUCIBLE, VllmSettings, extra_for, load_vllm_engine
from afterword.errors import ConfigurationError
from afterword.registry import ServedModel
from afterword.tokens import Tokenizer


def load_vllm(model: ModelConfig, engine: EngineConfig) -> ServedModel:
    """vLLM with one model; minutes. Raises `ConfigurationError`."""
    settings = vllm_settings(model, engine.max_waiting)
    loaded = load_vllm_engine(settings, engine.cache_dir)
    return ServedModel(
        model.name,
        loaded,
        _created(Path(settings.model)),
        model.aliases,
        card={"file": _shown(settings.model), "engine": model.engine, "not_reproducible": NOT_REPRODUCIBLE},
        infill_template=model.infill_template,
    )


def _shown(model: str) -> str:
    """A folder's name without what it lies in, or the model's name on a hub (docs/rules.md#paths-stay)."""
    return Path(model).name if Path(model).is_absolute() else model


def load_vllm_tokenizer(model: ModelConfig) -> Tokenizer:
    """The tokenizer alone. Raises `ConfigurationError`."""
    settings = vllm_settings(model, max_waiting=0)
    with extra_for(settings.model):
        from afterword.engine.vllm.huggingface import load_vocabulary
    return load_vocabulary(settings.model, settings.options)


def vllm_settings(model: ModelConfig, max_waiting: int) -> VllmSettings:
    """vLLM's settings for a configured model. Raises `ConfigurationError` for a path that it cannot read."""
    assert model.path is not None, "whatever runs here has a path"
    if model.path == DEFAULT_MODEL.name or model.path.endswith(".gguf"):
        raise ConfigurationError(
            f"{model.path} is a GGUF file, which vLLM does not read: write it in its format with "
            f"`afterword models export {model.path} DIRECTORY`, and give that directory as the path."
        )
    return VllmSettings(model.path, model.context, model.parallel, max_waiting, model.options)


def _created(directory: Path) -> int:
    """When the model was written, if it is a local directory, else now; Unix seconds."""
    file = directory / "config.json"
    return int(file.stat().st_mtime if file.is_file() else time.time())
