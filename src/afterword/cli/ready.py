"""The ready line of a server: its address, its models under all names, their context and slots."""

from collections.abc import Mapping

from afterword.config.tree import Config
from afterword.engine.base import Capabilities
from afterword.loading.embedded import space
from afterword.machine import resident_memory
from afterword.registry import Registry, ServedModel


def ready_line(config: Config, registry: Registry, port: int) -> str:
    """Of a server in this process that listens on `port`."""
    host = f"[{config.server.host}]" if ":" in config.server.host else config.server.host
    contexts = {model.name: model.context for model in config.models}
    served = "; ".join(
        f"{_called(model.name, model.aliases)}, {_space(model, contexts.get(model.name))}" for model in registry.all()
    )
    return (
        f"Ready at http://{host}:{port}/v1: {served}; {resident_memory() / 2**20:.0f} MiB of memory in use; "
        f"playground at http://{host}:{port}/"
    )


def cluster_ready_line(config: Config, facts: Mapping[str, Capabilities]) -> str:
    """Of a server on a cluster, where `facts` has the models that run there; others are at vendors."""
    served = "; ".join(
        f"{_called(model.name, model.aliases)}, "
        + (f"context {facts[model.name].context}" if model.name in facts else f"at {', '.join(model.vendors)}")
        for model in config.models
    )
    root = f"http://{config.server.host}:{config.server.port}"
    return f"Ready at {root}/v1 on every node: {served}; playground at {root}/"


def _space(model: ServedModel, asked: int | None) -> str:
    return space(model.engine.capabilities, asked) if model.is_loaded else "loaded when it is asked for"


def _called(name: str, aliases: tuple[str, ...]) -> str:
    return f"{name} (also {', '.join(aliases)})" if aliases else name
