"""Puts the application on a Ray cluster, restarts it in turn, takes it away. Called from the command line's process.

Two kinds of deployment: one of `EngineReplica`s for each model, and one of `HttpReplica`s in front of them all.
"""

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import ray
from ray import serve
from ray.serve.config import HTTPOptions, ProxyLocation, RequestRouterConfig
from ray.serve.handle import DeploymentHandle

from afterword.cluster.http import HttpReplica
from afterword.cluster.messages import Facts
from afterword.cluster.replica import EngineReplica
from afterword.cluster.router import PrefixRouter
from afterword.config import ClusterConfig, Config
from afterword.errors import ConfigurationError
from afterword.model_config import ModelConfig

HTTP_APPLICATION = "afterword"
VERSION_VARIABLE = "AFTERWORD_DEPLOYMENT"

DRAIN_SECONDS = 600.0
"""How long a replica that is being replaced may go on with what it has."""


@contextmanager
def connected(address: str | None) -> Iterator[None]:
    """A connection to the Ray cluster at `address`; None starts one that ends with the connection.

    Raises `ConfigurationError` if there is no cluster.
    """
    try:
        ray.init(
            address=address,
            namespace="afterword",
            log_to_driver=False,
            logging_level="warning",
            configure_logging=False,
        )
    except (ConnectionError, ValueError) as error:
        raise ConfigurationError(f"There is no Ray cluster at {address}: {error}.") from error
    try:
        yield
    finally:
        ray.shutdown()


def deploy(config: Config) -> dict[str, Facts]:
    """Deploy or update everything and wait until it serves; facts by model name. Within `connected`.

    What runs already is replaced replica by replica, each one finishing what it has (see `DRAIN_SECONDS`).
    """
    version = secrets.token_hex(4)
    serve.start(
        proxy_location=ProxyLocation.EveryNode,
        http_options=HTTPOptions(host=config.server.host, port=config.server.port),
    )
    facts = [_deploy_engine(config, number, version) for number in range(len(config.models))]
    http = _deployment(HttpReplica).options(
        name="http",
        num_replicas=config.cluster.http_replicas,
        max_ongoing_requests=config.engine.max_waiting + 1024,
        ray_actor_options=_actor(version, cpus=0, gpus=0),
    )
    names = [application_name(model) for model in config.models]
    serve.run(http.bind(config, facts, names), name=HTTP_APPLICATION, route_prefix="/")
    return {model.name: fact for model, fact in zip(config.models, facts, strict=True)}


def remove() -> None:
    """Take everything off the cluster. Within `connected`."""
    serve.shutdown()


def application_name(model: ModelConfig) -> str:
    """The Serve application that holds a model's engines."""
    return f"{HTTP_APPLICATION}-{model.name}"


def _deploy_engine(config: Config, number: int, version: str) -> Facts:
    cluster, model = config.cluster, config.models[number]
    engine = _deployment(EngineReplica).options(
        name="engine",
        max_ongoing_requests=config.engine.max_waiting + model.parallel,
        max_replicas_per_node=cluster.replicas_per_node or None,
        ray_actor_options=_actor(version, cpus=cluster.replica_cpus, gpus=cluster.replica_gpus),
        request_router_config=RequestRouterConfig(request_router_class=PrefixRouter),
        health_check_period_s=2.0,
        **_scale(cluster, model),
    )
    handle = serve.run(engine.bind(config, number), name=application_name(model), route_prefix=None)
    return describe(handle)


def describe(handle: DeploymentHandle) -> Facts:
    """What a model's replicas say of it. Blocks; not on an event loop."""
    facts = handle.describe.remote().result(timeout_s=60)
    assert isinstance(facts, Facts)
    return facts


def _actor(version: str, *, cpus: int, gpus: int) -> dict[str, Any]:
    """What Ray sets aside for a replica. The version makes Serve see a change, and so replace what runs."""
    return {"num_cpus": cpus, "num_gpus": gpus, "runtime_env": {"env_vars": {VERSION_VARIABLE: version}}}


def _deployment(replica: Any) -> Any:
    return serve.deployment(replica).options(
        graceful_shutdown_timeout_s=DRAIN_SECONDS,
        graceful_shutdown_wait_loop_s=1.0,
    )


def _scale(cluster: ClusterConfig, model: ModelConfig) -> dict[str, Any]:
    if cluster.min_replicas == cluster.max_replicas:
        return {"num_replicas": cluster.min_replicas}
    bounds = {"min_replicas": cluster.min_replicas, "max_replicas": cluster.max_replicas}
    return {"autoscaling_config": {**bounds, "target_ongoing_requests": model.parallel}}
