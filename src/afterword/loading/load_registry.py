"""Loads every configured model into a registry."""

from collections.abc import Callable, Mapping
from functools import partial

from afterword.config.model import ModelConfig
from afterword.config.tree import Config, EngineConfig
from afterword.config.vendor import LOCAL
from afterword.engine.loaded_models import LoadedModels
from afterword.loading.embedded import load_echo, load_llama, memory_budget
from afterword.loading.on_request import loaded_on_request
from afterword.loading.upstream import Vendor, load_upstream, open_vendors
from afterword.loading.vllm import load_vllm
from afterword.registry import Registry, ServedModel


def load_registry(config: Config, shared: LoadedModels | None = None) -> Registry:
    """Load every configured model, which takes seconds to minutes; see `model_loader`. Raises `ConfigurationError`."""
    load = model_loader(config, LoadedModels() if shared is None else shared)
    return Registry([load(model) for model in config.models])


def budget_of_each(config: Config) -> int:
    """Bytes for each model that llama.cpp runs here: they share the budget evenly, as many as are loaded at once."""
    here = [model for model in config.models if model.engine == "llama" and runs_here(model)]
    at_start = [model for model in here if model.keep_alive is None]
    n_loaded = len(at_start) + min(config.engine.max_loaded, len(here) - len(at_start))
    return memory_budget(config.engine.memory) // max(1, n_loaded)


def model_loader(config: Config, shared: LoadedModels) -> Callable[[ModelConfig], ServedModel]:
    """Loads one of the configuration's models; that raises `ConfigurationError`.

    `shared`: what models that are loaded when they are asked for share; it is told how much that is.
    """
    vendors, budget = open_vendors(config.vendors, config.engine), budget_of_each(config)
    n_on_request = sum(model.keep_alive is not None for model in config.models)
    shared.budget = max(shared.budget, budget * min(config.engine.max_loaded, n_on_request))

    def load(model: ModelConfig) -> ServedModel:
        if model.keep_alive is not None:
            return loaded_on_request(model, config.engine, partial(_load_here, model, config.engine), budget, shared)
        return _load(model, vendors, lambda one: _load_here(one, config.engine, budget))

    return load


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
