"""Deploys the application on a Ray cluster, updates and removes it. Called from the command line's process.

Two kinds of deployment: one of `EngineReplica`s for each model, and one of `HttpReplica`s in front of them all.
"""

import logging
import re
import secrets
import socket
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from hashlib import blake2b

import ray
import structlog
from ray import serve
from ray.serve.config import HTTPOptions, ProxyLocation
from ray.serve.deployment import Application
from ray.serve.handle import DeploymentHandle
from ray.serve.schema import ApplicationStatusOverview

from afterword.cluster.applications import engine_application, http_application
from afterword.cluster.messages import Facts
from afterword.config.model import ModelConfig
from afterword.config.tree import Config
from afterword.errors import ConfigurationError
from afterword.loading.load_registry import runs_here

HTTP_APPLICATION = "afterword"
ENGINES = "afterword-"
"""What the names of the applications with engines begin with."""

CONNECT_SECONDS = 5.0

POLL_SECONDS = 0.2


@contextmanager
def connected(address: str | None) -> Iterator[None]:
    """A connection to the Ray cluster at `address`; None starts one that ends with the connection.

    Raises `ConfigurationError` if there is no cluster.
    """
    # Details of each replica are in Serve's own log files; what matters to the caller is logged here.
    logging.getLogger("ray.serve").setLevel(logging.WARNING)
    if address is not None and address != "auto":
        _reach(address)
    try:
        ray.init(
            address=address,
            # Only a new cluster may be given this option; such a temporary one needs no dashboard.
            include_dashboard=False if address is None else None,
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


def _reach(address: str) -> None:
    """Raise `ConfigurationError` if nothing listens there: Ray itself would try for a minute."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit():
        raise ConfigurationError(f"The address of a cluster is HOST:PORT, auto or local, not {address}.")
    try:
        socket.create_connection((host, int(port)), timeout=CONNECT_SECONDS).close()
    except OSError as error:
        raise ConfigurationError(f"There is no Ray cluster at {address}: {error}.") from error


def deploy(config: Config) -> dict[str, Facts]:
    """Deploy or update everything and wait until it serves; facts of the models that run on the cluster, by name.

    Within `connected`. What runs already is replaced replica by replica, each one finishing what it has
    (`DRAIN_SECONDS` at most). The engines of models that are no longer configured go last. Raises
    `ConfigurationError` if something cannot start.
    """
    version = secrets.token_hex(4)
    serve.start(
        proxy_location=ProxyLocation.EveryNode,
        http_options=HTTPOptions(host=config.server.host, port=config.server.port),
    )
    engines = {model.name: application_name(model) for model in config.models if runs_here(model)}
    _run(
        {
            engines[model.name]: engine_application(config, number, version)
            for number, model in enumerate(config.models)
            if model.name in engines
        },
        route_prefix=None,
    )
    _run({HTTP_APPLICATION: http_application(config, engines, version)}, route_prefix="/")
    for name in serve.status().applications:
        if name.startswith(ENGINES) and name not in engines.values():
            serve.delete(name, _blocking=False)
    return {model: _describe(serve.get_app_handle(name)) for model, name in engines.items()}


def remove() -> None:
    """Remove everything from the cluster. Within `connected`."""
    serve.shutdown()


def application_name(model: ModelConfig) -> str:
    """The Serve application that holds a model's engines.

    A new application if the model's path changes: HTTP replicas that still have the old tokenizer must not reach
    engines with the new model.
    """
    identity = blake2b(f"{model.name}\0{model.engine}\0{model.path}".encode(), digest_size=4).hexdigest()
    readable = re.sub(r"[^A-Za-z0-9.]+", "-", model.name)
    return f"{ENGINES}{readable}-{identity}"


def _run(applications: Mapping[str, Application], route_prefix: str | None) -> None:
    """Deploy them together and wait until all run. Raises `ConfigurationError` if one cannot start."""
    targets = [serve.RunTarget(target, name=name, route_prefix=route_prefix) for name, target in applications.items()]
    if targets:
        serve.run_many(targets, wait_for_applications_running=False)
        _until_running(applications.keys())


def _until_running(names: Collection[str]) -> None:
    """Wait for applications, and log what they wait for. Raises `ConfigurationError` if one cannot start."""
    said = ""
    while True:
        status = serve.status().applications
        for name in names:
            if status[name].status == "DEPLOY_FAILED":
                raise ConfigurationError(f"{name} does not start: {_cause(status[name])}")
        if all(status[name].status == "RUNNING" for name in names):
            return
        waiting = "; ".join(
            f"{name}: {_sentence(deployment.message) or deployment.message.splitlines()[0]}"
            for name in names
            for deployment in status[name].deployments.values()
            if deployment.message
        )
        if waiting != said:
            structlog.get_logger("afterword.cluster").info("waiting for replicas", what=waiting)
            said = waiting
        time.sleep(POLL_SECONDS)


def _cause(application: ApplicationStatusOverview) -> str:
    """Why a replica does not start: our own sentence, or else all of Serve's messages."""
    said = [application.message, *(deployment.message for deployment in application.deployments.values())]
    return _sentence("\n".join(said)) or "\n".join(said)


def _sentence(message: str) -> str:
    """Our own sentence from the traceback in a message of Serve; empty if there is none."""
    found = re.findall(rf"{ConfigurationError.__name__}: (.+)", message)
    return found[-1] if found else ""


def _describe(handle: DeploymentHandle) -> Facts:
    """The facts of a model, from one of its replicas. Blocks; not on an event loop."""
    facts = handle.describe.remote().result(timeout_s=60)
    assert isinstance(facts, Facts)
    return facts
