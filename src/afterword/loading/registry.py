"""Every configured model as a registry: who loads which."""

from afterword.config import Config, EngineConfig
from afterword.defaults import ECHO, LLAMA
from afterword.loading.embedded import load_echo, load_llama, memory_budget
from afterword.model_config import ModelConfig
from afterword.models import Registry, ServedModel


def load_registry(config: Config) -> Registry:
    """Load every configured model, which takes seconds to minutes. Raises `ConfigurationError`.

    The memory budget is divided evenly among the models that need any.
    """
    embedded = [model for model in config.models if model.engine == LLAMA]
    budget = memory_budget(config.engine.memory) // max(1, len(embedded))
    return Registry([_load(model, config.engine, budget) for model in config.models])


def _load(model: ModelConfig, engine: EngineConfig, budget: int) -> ServedModel:
    if model.engine == ECHO:
        return load_echo(model, engine)
    return load_llama(model, engine, budget)
