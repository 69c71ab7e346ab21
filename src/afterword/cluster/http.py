"""The application of one server, on a replica without a model: its engines are elsewhere in the cluster."""

import asyncio
from collections.abc import Iterator
from typing import Any

import structlog
from ray import serve
from ray.exceptions import RayError
from ray.serve.exceptions import RayServeException

from afterword import logs
from afterword.api.app import create_app
from afterword.api.settings import api_settings
from afterword.cluster.engine import REPORT_SECONDS, ClusterEngine
from afterword.cluster.messages import Facts
from afterword.cluster.metrics import ClusterMetrics, Exposition
from afterword.config import Config
from afterword.gateway.opening import open_gateway
from afterword.loading.tokenizers import load_tokenizer
from afterword.models import Registry, ServedModel


@serve.ingress()
class HttpReplica:
    """The deployment's class. Ray Serve hands it raw ASGI calls for the application that it builds."""

    async def __init__(self, config: Config, facts: list[Facts], applications: list[str]) -> None:  # type: ignore[misc]
        """`applications`: the Serve applications that hold the models' engines, in the configuration's order."""
        logs.configure(config.server.log_format, config.server.log_level)
        context = serve.get_replica_context()
        self._config = config
        self._engines = [
            ClusterEngine(serve.get_app_handle(name), fact, load_tokenizer(model))
            for name, fact, model in zip(applications, facts, config.models, strict=True)
        ]
        self._registry = Registry(
            [
                ServedModel(model.name, engine, fact.created, model.aliases, fact.owned_by, fact.card, fact.vendor)
                for model, engine, fact in zip(config.models, self._engines, facts, strict=True)
            ]
        )
        self._metrics = ClusterMetrics(context.replica_id.unique_id, self._elsewhere)
        self._others: tuple[Exposition, ...] = ()
        for engine in self._engines:
            engine.start_watching()
        self._watch = asyncio.create_task(self._keep_others(context.deployment, context.app_name))

    def __serve_build_asgi_app__(self) -> Any:
        """Called by Ray Serve after the constructor."""
        return create_app(self._registry, api_settings(self._config.server), open_gateway(self._config), self._metrics)

    async def exposition(self) -> Exposition:
        """This replica's own counters."""
        return self._metrics.own()

    def _elsewhere(self) -> Iterator[Exposition]:
        yield from self._others
        for engine in self._engines:
            yield from ((report.replica, report.exposition) for report in engine.reports())

    async def _keep_others(self, deployment: str, application: str) -> None:
        """Ask the other HTTP replicas for their counters, again and again."""
        handle = serve.get_deployment_handle(deployment, application)
        while True:
            try:
                self._others = tuple(await handle.broadcast("exposition").results_async())
            except (RayError, RayServeException) as error:
                structlog.get_logger("afterword.cluster").warning("no counters from other replicas", error=str(error))
            await asyncio.sleep(REPORT_SECONDS)
