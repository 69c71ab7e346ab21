"""`afterword serve --cluster` and `afterword cluster remove`: the server as replicas on a Ray cluster."""

import signal
import threading
from types import ModuleType
from typing import Annotated

import typer

from afterword.cli.options import Option
from afterword.cluster.sharing import check_shared
from afterword.config.tree import Config
from afterword.errors import ConfigurationError

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


def serve_on_cluster(config: Config, address: str) -> None:
    """Deploy, say where it serves, and stay if the cluster is this command's own.

    On a cluster that was there before, what is deployed stays; doing it again replaces it replica by replica.
    Raises `ConfigurationError` if Ray is not installed, the cluster does not answer, or something cannot be shared.
    """
    # Below the help, which needs no models.
    from afterword.cli.ready import cluster_ready_line

    if address != LOCAL:
        check_shared(config)
    deploy = _ray_side()
    with deploy.connected(None if address == LOCAL else address):
        facts = deploy.deploy(config)
        typer.echo(cluster_ready_line(config, {name: fact.capabilities for name, fact in facts.items()}))
        if address == LOCAL:
            _wait_for_signal()
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


def _wait_for_signal() -> None:
    stopped = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stopped.set())
    stopped.wait()
