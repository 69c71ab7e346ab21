"""What SIGHUP does: the configuration is read again, and the server goes on with it (docs/rules.md#reloading).

A configuration that is wrong, or a model that does not load, leaves everything as it is.
"""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import replace
from typing import Any

import structlog

from afterword.api.serving import Serving
from afterword.completions.filter.load_filter import load_filter
from afterword.completions.filter.verdict import ContentFilter
from afterword.config.tree import Config, ServerConfig
from afterword.engine.base import Engine
from afterword.engine.loaded_models import LoadedModels
from afterword.errors import AfterwordError
from afterword.gateway.interfaces import Gateway
from afterword.gateway.opening import change_key, check_gateway
from afterword.loading.load_registry import model_loader
from afterword.registry import Registry, ServedModel

AT_START = frozenset(
    {
        *("host", "port", "log_format", "log_level", "log_file", "otlp_endpoint", "cors_origins", "allowed_hosts"),
        *("keep_alive", "head_timeout", "stall_timeout", "max_connections"),
    }
)
"""Settings of [server] that are used when the server starts, and never again."""

ServeWith = Callable[[Registry, ServerConfig, Gateway, ContentFilter | None], Coroutine[Any, Any, None]]

_log = structlog.get_logger("afterword")


class Reloader:
    """Reads the configuration again. On the event loop; one reload after the other."""

    def __init__(
        self,
        config: Config,
        shared: LoadedModels,
        read: Callable[[], Config],
        current: Callable[[], Serving],
        serve_with: ServeWith,
    ) -> None:
        """`config`: what the server has begun with, `shared`: what its models share. `read`: reads it anew.
        `current`: what is served with at present. `serve_with`: that of api/app.py, for the application."""
        self._config = config
        self._shared = shared
        self._current = current
        self._serve_with = serve_with
        self._read = read
        self._one_at_a_time = asyncio.Lock()

    async def reload(self) -> None:
        """Serve with what the configuration says now, or log in one sentence why not.

        Returns once the requests that had begun before have ended.
        """
        async with self._one_at_a_time:
            try:
                changing = await self._change()
            except AfterwordError as error:
                _log.error("the configuration was not reloaded, and the old one stays", reason=str(error))
                return
            except Exception as error:
                # Of any kind: the server must go on.
                _log.error("the configuration was not reloaded, and the old one stays", reason=repr(error))
                return
        await changing

    async def _change(self) -> "asyncio.Task[None]":
        """Load what is new, and begin to serve with it."""
        config = await asyncio.to_thread(self._read)
        await asyncio.to_thread(check_gateway, config)
        content_filter = await asyncio.to_thread(load_filter, config.server.content_filter)
        serve = self._current()
        # Where models are loaded anew, the old ones keep what they share until they are closed.
        shared = self._shared if config.engine == self._config.engine else LoadedModels()
        registry = await self._load(config, shared, serve.registry)
        _warn_of_settings_at_start(self._config, config)
        self._config, self._shared = config, shared

        async def change() -> None:
            # The key in the same turn of the loop as the rest: no request has one without the other.
            await self._serve_with(registry, config.server, change_key(serve.gateway, config), content_filter)

        changing = asyncio.create_task(change())
        # So that the next request is served with it.
        await asyncio.sleep(0)
        _log.info("the configuration was reloaded", models=[model.name for model in config.models])
        return changing

    async def _load(self, config: Config, shared: LoadedModels, old: Registry) -> Registry:
        """The configured models; those whose settings are the same keep their engines."""
        kept = _kept(self._config, config, {model.name: model for model in old.all()})
        load = model_loader(config, shared)
        models: list[ServedModel] = []
        try:
            for model in config.models:
                served = kept.get(model.name)
                models.append(await asyncio.to_thread(load, model) if served is None else served)
        except BaseException:
            running = {id(engine) for engine in old.engines()}
            await _close([served.engine for served in models if id(served.engine) not in running])
            raise
        return Registry(models)


async def _close(engines: list[Engine]) -> None:
    for engine in engines:
        await engine.aclose()


def _kept(old: Config, new: Config, served: Mapping[str, ServedModel]) -> dict[str, ServedModel]:
    """The models of `served` whose engines the new configuration uses too."""
    if old.engine != new.engine:
        return {}
    before = {model.name: model for model in old.models}
    kept: dict[str, ServedModel] = {}
    for model in new.models:
        same = before.get(model.name)
        if same is None or same.model_copy(update={"aliases": model.aliases}) != model:
            continue
        vendors = [[one for one in config.vendors if one.name in model.vendors] for config in (old, new)]
        if vendors[0] == vendors[1] and model.name in served:
            kept[model.name] = replace(served[model.name], aliases=model.aliases)
    return kept


def _warn_of_settings_at_start(old: Config, new: Config) -> None:
    changed = [
        f"{section}.{name}"
        for section in ("server", "gateway", "cluster")
        for name in type(getattr(new, section)).model_fields
        if (section != "server" or name in AT_START)
        and getattr(getattr(old, section), name) != getattr(getattr(new, section), name)
    ]
    if changed:
        _log.warning("settings that a server uses only when it starts have changed", settings=changed)
