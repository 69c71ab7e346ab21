"""`afterword serve --cluster` and `afterword cluster remove`: the server as replicas on a Ray cluster."""

import signal
from collections.abc import Callable
from queue import SimpleQueue
from types import ModuleType
from typing import Annotated

import structlog
import typer

from afterword.cli.options import Option
from afterword.cluster.sharing import check_shared
from afterword.config.tree import Config
from afterword.errors import AfterwordError, ConfigurationError

LOCAL = "local"
"""The address of a cluster of this machine alone that runs as long as the command."""

CLUSTER_OPTION = Option(
    "cluster",
    ("--cluster",),
    str,
    "Serve as replicas on the Ray cluster at this address (HOST:PORT, or auto for the one this machine belongs to); "
    "local starts one on this machine. Needs the extra `ray`. See docs/cluster.md.",
    "ADDRESS",
)

_ADDRESS = typer.Argument(help="HOST:PORT of the cluster's head, or auto.", metavar="ADDRESS")


def serve_on_cluster(config: Config, address: str, read: Callable[[], Config]) -> None:
    """Deploy, say where it serves, and stay if the cluster is this command's own.

    On a cluster that was there before, what is deployed stays; doing it again replaces it replica by replica. So does
    SIGHUP where the command stays: `read` reads the configuration again.
    Raises `ConfigurationError` if Ray is not installed, the cluster does not answer, or something cannot be shared.
    """
    # Below the help, which needs no models.
    from afterword.cli.ready import cluster_ready_line

    config = _always_loaded(config)
    if address != LOCAL:
        check_shared(config)
    deploy = _ray_side()
    said: SimpleQueue[int] = SimpleQueue()
    if address == LOCAL:
        signal.signal(signal.SIGHUP, lambda number, _: said.put(number))
    with deploy.connected(None if address == LOCAL else address):
        facts = deploy.deploy(config)
        typer.echo(cluster_ready_line(config, {name: fact.capabilities for name, fact in facts.items()}))
        if address == LOCAL:
            for number in (signal.SIGINT, signal.SIGTERM):
                signal.signal(number, lambda number, _: said.put(number))
            while said.get() == signal.SIGHUP:
                _deploy_again(deploy, read)
            deploy.remove()


def remove(address: Annotated[str, _ADDRESS] = "auto") -> None:
    """Take the server off a Ray cluster; the cluster itself goes on.

    \b
    Examples:
      afterword cluster remove
      afterword cluster remove 10.0.0.1:6379
    """
    deploy = _ray_side()
    with deploy.connected(address):
        deploy.remove()
    typer.echo("Removed.")


def _ray_side() -> ModuleType:
    try:
        from afterword.cluster import deploy
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != "ray":
            raise
        raise ConfigurationError(
            "A cluster needs Ray, which is not installed: pip install 'afterword[ray]', on every node."
        ) from None
    return deploy


def _always_loaded(config: Config) -> Config:
    """Without the models that have a `keep_alive`: an engine on a cluster is a replica, which is there or not."""
    models = tuple(model for model in config.models if model.keep_alive is None)
    if not models:
        raise ConfigurationError("All models have a keep_alive, and a cluster loads none when it is asked for.")
    return config.model_copy(update={"models": models})


def _deploy_again(deploy: ModuleType, read: Callable[[], Config]) -> None:
    log = structlog.get_logger("afterword")
    try:
        config = _always_loaded(read())
        deploy.deploy(config)
    except Exception as error:
        # Of any kind: what runs goes on.
        reason = str(error) if isinstance(error, AfterwordError) else repr(error)
        log.error("the configuration was not deployed again", reason=reason)
    else:
        log.info("the configuration was deployed again", models=[model.name for model in config.models])
