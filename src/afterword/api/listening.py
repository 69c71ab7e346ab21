"""uvicorn's configuration, for the program and for tests that need a socket."""

import asyncio
from functools import partial
from typing import cast

import structlog
from starlette.types import ASGIApp
from uvicorn import Config

from afterword.api.connections import ConnectionLimits, Connections
from afterword.api.protocol import HttpProtocol
from afterword.config.tree import ServerConfig

SECONDS_TO_END = 5
"""How long answers that are ended may take to be sent; those of clients that do not read are dropped then."""

MOST_CONNECTIONS = 10_000
"""The default of `max_connections`."""

MOST_UNACCEPTED = 2048
"""Connections that the system may hold for a busy server."""


def uvicorn_config(
    app: ASGIApp, server: ServerConfig, n_descriptors: int, seconds_to_finish: int | None = None
) -> Config:
    """uvicorn with our protocol and without its own log lines.

    `n_descriptors`: files that may still be opened. A quarter is left for other files, and for connections that are
    accepted together before the limit is checked.
    """
    most = max(1, n_descriptors * 3 // 4)
    wanted = MOST_CONNECTIONS if server.max_connections is None else server.max_connections
    if server.max_connections is not None and wanted > most:
        structlog.get_logger("afterword.http").warning(
            "fewer connections than max_connections: the system allows no more files", limit=most
        )
    limits = ConnectionLimits(min(wanted, most), server.head_timeout, server.stall_timeout)
    return Config(
        app,
        loop="uvloop",
        # uvicorn only ever calls it.
        http=cast(type[asyncio.Protocol], partial(HttpProtocol, connections=Connections(limits))),
        ws="none",
        access_log=False,
        log_level="warning",
        server_header=False,
        backlog=min(MOST_UNACCEPTED, max(1, n_descriptors - most)),
        timeout_keep_alive=server.keep_alive,
        timeout_graceful_shutdown=server.drain_timeout + SECONDS_TO_END
        if seconds_to_finish is None
        else seconds_to_finish,
    )
