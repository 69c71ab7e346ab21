"""Runs the server: loads the models, listens, prints the ready line, and shuts down in order.

The only place that starts a server. The command itself is in `serve_command.py`.
"""

import asyncio
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable
from functools import partial

import structlog

from afterword import logs
from afterword.api.app import create_app, serve_with
from afterword.api.listening import uvicorn_config
from afterword.api.serving import serving_of
from afterword.cli.cluster_command import serve_on_cluster
from afterword.cli.http_server import HttpServer
from afterword.cli.ready import ready_line
from afterword.cli.reloading import Reloader
from afterword.completions.filter.load_filter import load_filter
from afterword.config.tree import Config, ServerConfig
from afterword.engine.loaded_models import LoadedModels
from afterword.errors import ConfigurationError
from afterword.gateway.opening import check_gateway, open_gateway
from afterword.loading.load_registry import load_registry
from afterword.machine import free_descriptors
from afterword.tracing.tracer import open_tracer


def serve(config: Config, cluster: str | None, read: Callable[[], Config]) -> None:
    """Serve until a signal says to stop; on a cluster, `cluster` being its address, as `serve_on_cluster` says.

    `read`: reads the configuration again, at SIGHUP. Raises `ConfigurationError`.
    """
    log = _open_log(config.server)
    check_gateway(config)
    # Before anything is loaded or deployed, and for a cluster only to find out whether it can be.
    content_filter = load_filter(config.server.content_filter)
    tracer = open_tracer(config.server.otlp_endpoint)
    if cluster is not None:
        serve_on_cluster(config, cluster, read)
        return
    # The port is taken first: that it is in use should not show only after a model has been loaded.
    with _bind(config.server) as listener:
        structlog.get_logger("afterword").info("loading", models=[model.name for model in config.models])
        shared = LoadedModels()
        registry = load_registry(config, shared)
        app = create_app(registry, config.server, open_gateway(config), content_filter, tracer=tracer)
        reloader = Reloader(config, shared, read, partial(serving_of, app), partial(serve_with, app))
        on_signals = {signal.SIGHUP: _reloading(reloader), signal.SIGUSR1: log.reopen}
        line = ready_line(config, registry, listener.getsockname()[1])
        server = HttpServer(
            uvicorn_config(app, config.server, free_descriptors()), partial(serving_of, app), line, on_signals
        )
        _ignore_repeated_signals()
        server.run(sockets=[listener])
    _leave_threads()


def _open_log(server: ServerConfig) -> logs.LogFile:
    try:
        return logs.configure(server.log_format, server.log_level, server.log_file)
    except OSError as error:
        raise ConfigurationError(f"log_file {server.log_file} cannot be opened: {error.strerror}.") from error


def _reloading(reloader: Reloader) -> Callable[[], None]:
    running: set[asyncio.Task[None]] = set()

    def begin() -> None:
        task = asyncio.get_running_loop().create_task(reloader.reload())
        # Kept until it has ended: the loop itself holds tasks weakly.
        running.add(task)
        task.add_done_callback(running.discard)

    return begin


def _bind(server: ServerConfig) -> socket.socket:
    family = socket.AF_INET6 if ":" in server.host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((server.host.strip("[]"), server.port))
    except OSError as error:
        listener.close()
        raise ConfigurationError(
            f"Cannot listen on port {server.port} of {server.host}: {error.strerror}. Choose another with --port, or "
            "0 for any free one."
        ) from error
    return listener


def _leave_threads() -> None:
    """End the process although threads wait for a database that does not answer: everything is closed."""
    if any(not thread.daemon for thread in threading.enumerate() if thread is not threading.current_thread()):
        structlog.get_logger("afterword").warning("stopped, though some threads had not ended")
        sys.stdout.flush()
        os._exit(0)


def _ignore_repeated_signals() -> None:
    """So that a clean shutdown exits with 0: uvicorn raises the signal that stopped it again at its end."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: None)
