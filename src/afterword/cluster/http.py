"""The HTTP application on a replica without models: its engines are other replicas of the cluster."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import structlog
from ray import serve
from ray.exceptions import RayError
from ray.serve.exceptions import RayServeException
from ray.serve.handle import DeploymentHandle

from afterword import logs
from afterword.api.app import create_app
from afterword.cluster.calls import RayReplicas
from afterword.cluster.cluster_engine import REPORT_SECONDS, ClusterEngine, pause
from afterword.cluster.cluster_metrics import ClusterMetrics, Exposition
from afterword.cluster.messages import Facts
from afterword.completions.filter.load_filter import load_filter
from afterword.config.model import ModelConfig
from afterword.config.tree import Config
from afterword.gateway.opening import open_gateway
from afterword.loading.load_registry import registry_of, runs_here
from afterword.loading.tokenizers import load_tokenizer
from afterword.registry import ServedModel
from afterword.tracing.tracer import open_tracer

Application = Callable[[Any, Any, Any], Awaitable[None]]
"""As ASGI has it."""


@serve.ingress()
class HttpReplica:
    """The deployment's class. Ray Serve hands it raw ASGI calls for the application that it builds."""

    async def __init__(self, config: Config, applications: dict[str, str]) -> None:  # type: ignore[misc]
        """`applications`: for each model that runs on the cluster, the Serve application that has its engines."""
        logs.configure(config.server.log_format, config.server.log_level)
        context = serve.get_replica_context()
        self._config = config
        self._engines: list[ClusterEngine] = []
        on_cluster = {
            model.name: await self._on_cluster(model, applications[model.name])
            for model in config.models
            if runs_here(model)
        }
        # In a thread, because it sends requests to vendors.
        self._registry = await asyncio.to_thread(registry_of, config, lambda model: on_cluster[model.name])
        at_vendors = [model for model in self._registry.all() if model.name not in on_cluster]
        self._metrics = ClusterMetrics(context.replica_id.unique_id, at_vendors, self._elsewhere)
        self._others: tuple[Exposition, ...] = ()
        for engine in self._engines:
            engine.start_watching()
        self._watch = asyncio.create_task(self._keep_others(context.deployment, context.app_name))

    async def _on_cluster(self, model: ModelConfig, application: str) -> ServedModel:
        """The model as its engines describe it, once they run."""
        handle = await _handle_of(application)
        facts: Facts = await handle.describe.remote()
        engine = ClusterEngine(RayReplicas(handle), facts, load_tokenizer(model))
        self._engines.append(engine)
        return ServedModel(
            model.name,
            engine,
            facts.created,
            model.aliases,
            owned_by=facts.owned_by,
            card=facts.card,
            vendor=facts.vendor,
            infill_template=model.infill_template,
        )

    def __serve_build_asgi_app__(self) -> Any:
        """Called by Ray Serve after the constructor."""
        server = self._config.server
        content_filter, gateway = load_filter(server.content_filter), open_gateway(self._config)
        tracer = open_tracer(server.otlp_endpoint)
        app = create_app(self._registry, server, gateway, content_filter, self._metrics, tracer)
        return _without_request_id(app)

    async def exposition(self) -> Exposition:
        """This replica's own counters."""
        return self._metrics.own()

    def _elsewhere(self) -> Iterator[Exposition]:
        yield from self._others
        for engine in self._engines:
            yield from ((report.replica, report.exposition) for report in engine.reports())

    async def _keep_others(self, deployment: str, application: str) -> None:
        """Fetch the other HTTP replicas' counters repeatedly."""
        handle = serve.get_deployment_handle(deployment, application)
        while True:
            try:
                self._others = tuple(await handle.broadcast("exposition").results_async())
            except (RayError, RayServeException) as error:
                structlog.get_logger("afterword.cluster").warning("no counters from other replicas", error=str(error))
            await asyncio.sleep(pause(len(self._others)))


async def _handle_of(application: str) -> DeploymentHandle:
    """Wait for the application: one configuration file may declare it together with this one."""
    while True:
        try:
            return serve.get_app_handle(application)
        except RayServeException:
            await asyncio.sleep(REPORT_SECONDS)


def _without_request_id(app: Application) -> Application:
    """`app` without the `x-request-id` of its answers.

    Serve's proxy adds the same one, and clients read two as a list.
    """

    async def wrapped(scope: Any, receive: Any, send: Any) -> None:
        async def sending(message: Any) -> None:
            if message["type"] == "http.response.start":
                kept = [header for header in message["headers"] if header[0].lower() != b"x-request-id"]
                message = {**message, "headers": kept}
            await send(message)

        await app(scope, receive, sending)

    return wrapped
