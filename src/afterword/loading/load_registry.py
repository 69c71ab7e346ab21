"""Loads every configured model into a registry."""

from collections.abc import Callable, Mapping

from afterword.config.model import ModelConfig
from afterword.config.tree import Config, EngineConfig
from afterword.config.vendor import LOCAL
from afterword.loading.embedded import load_echo, load_llama, memory_budget
from afterword.loading.upstream import Vendor, load_upstream, open_vendors
from afterword.loading.vllm import load_vllm
from afterword.registry import Registry, ServedModel


def load_registry(config: Config) -> Registry:
    """Load every configured model, which takes seconds to minutes. Raises `ConfigurationError`."""
    budget = budget_of_each(config)
    return registry_of(config, lambda model: _load_here(model, config.engine, budget))


def budget_of_each(config: Config) -> int:
    """Bytes for each model that llama.cpp runs here: they share the budget evenly."""
    embedded = [model for model in config.models if model.engine == "llama" and runs_here(model)]
    return memory_budget(config.engine.memory) // max(1, len(embedded))


def model_loader(config: Config) -> Callable[[ModelConfig], ServedModel]:
    """Loads one of the configuration's models; that raises `ConfigurationError`."""
    vendors, budget = open_vendors(config.vendors, config.engine), budget_of_each(config)
    return lambda model: _load(model, vendors, lambda one: _load_here(one, config.engine, budget))


def registry_of(config: Config, load_here: Callable[[ModelConfig], ServedModel]) -> Registry:
    """Every configured model: local ones by `load_here`, the others from their vendors.

    Raises `ConfigurationError`.
    """
    vendors = open_vendors(config.vendors, config.engine)
    return Registry([_load(model, vendors, load_here) for model in config.models])


def runs_here(model: ModelConfig) -> bool:
    """Whether this server itself is among the model's vendors."""
    return LOCAL in model.vendors


def _load(
    model: ModelConfig, vendors: Mapping[str, Vendor], load_here: Callable[[ModelConfig], ServedModel]
) -> ServedModel:
    local = load_here(model) if runs_here(model) else None
    if local is not None and len(model.vendors) == 1:
        return local
    return load_upstream(model, vendors, local)


def _load_here(model: ModelConfig, engine: EngineConfig, budget: int) -> ServedModel:
    if model.engine == "echo":
        return load_echo(model, engine)
    if model.engine == "vllm":
        return load_vllm(model, engine)
    return load_llama(model, engine, budget)
