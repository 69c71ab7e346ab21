"""The Serve applications: one with the engines of each model, and one with HTTP in front of them all.

Their options follow from the configuration. `deploy.py` puts them on a cluster.
"""

from collections.abc import Mapping
from typing import Any

from ray import serve
from ray.serve.config import RequestRouterConfig
from ray.serve.deployment import Application, Deployment

from afterword.cluster.http import HttpReplica
from afterword.cluster.replica import EngineReplica
from afterword.cluster.router import PrefixRouter
from afterword.config.model import ModelConfig
from afterword.config.tree import ClusterConfig, Config

VERSION_VARIABLE = "AFTERWORD_DEPLOYMENT"

DRAIN_SECONDS = 600.0
"""How long a replica that is being replaced may take to finish its requests."""

HEALTH_SECONDS = 2.0
"""Time between two health checks of an engine."""

OTHER_REQUESTS = 1024
"""Requests on one HTTP replica besides those whose prompts wait for a slot."""


def engine_application(config: Config, number: int, version: str) -> Application:
    """The engines of model `number` of the configuration.

    Where another `version` of the application runs, each of its replicas is replaced.
    """
    cluster, model = config.cluster, config.models[number]
    return (
        _deployment(EngineReplica)
        .options(
            name="engine",
            max_ongoing_requests=config.engine.max_waiting + model.parallel,
            max_replicas_per_node=cluster.replicas_per_node or None,
            ray_actor_options=_actor(version, cpus=cluster.replica_cpus, gpus=cluster.replica_gpus),
            request_router_config=RequestRouterConfig(request_router_class=PrefixRouter),
            health_check_period_s=HEALTH_SECONDS,
            **_scale(cluster, model),
        )
        .bind(config, number)
    )


def http_application(config: Config, engines: Mapping[str, str], version: str) -> Application:
    """The API in front of `engines`: for each model that runs on the cluster, the name of its application."""
    return (
        _deployment(HttpReplica)
        .options(
            name="http",
            num_replicas=config.cluster.http_replicas,
            max_ongoing_requests=config.engine.max_waiting + OTHER_REQUESTS,
            ray_actor_options=_actor(version, cpus=0, gpus=0),
        )
        .bind(config, dict(engines))
    )


def _actor(version: str, *, cpus: int, gpus: int) -> dict[str, Any]:
    """Resources of a replica. The version is in it so that Serve sees a change, and replaces running replicas."""
    return {"num_cpus": cpus, "num_gpus": gpus, "runtime_env": {"env_vars": {VERSION_VARIABLE: version}}}


def _deployment(replica: Any) -> Deployment:
    return serve.deployment(replica).options(
        graceful_shutdown_timeout_s=DRAIN_SECONDS,
        graceful_shutdown_wait_loop_s=1.0,
    )


def _scale(cluster: ClusterConfig, model: ModelConfig) -> dict[str, Any]:
    if cluster.min_replicas == cluster.max_replicas:
        return {"num_replicas": cluster.min_replicas}
    bounds = {"min_replicas": cluster.min_replicas, "max_replicas": cluster.max_replicas}
    return {"autoscaling_config": {**bounds, "target_ongoing_requests": model.parallel}}
