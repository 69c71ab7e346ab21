"""What the server needs besides models: database, keys, Redis, vendors, its port."""

import os
import socket
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlsplit

import httpx

from afterword.cli.doctor.finding import Finding
from afterword.config.tree import Config, ServerConfig
from afterword.engine.upstream.discovery import ask_about
from afterword.errors import ConfigurationError
from afterword.gateway.opening import check_exposure, is_loopback

SECONDS = 2.0
"""That a server on this machine has to say what it is."""


def database(config: Config) -> Iterator[Finding]:
    """The database, and whether there are keys where there must be one."""
    where = config.gateway.database
    n_keys = 0
    if where is None:
        yield Finding("database", "kept in", "none: neither keys nor a ledger")
    else:
        from afterword.gateway.inspection import inspect_database

        state = inspect_database(where, datetime.now(UTC))
        if state is None:
            wrong = _why_not_made(Path(str(where).removeprefix("sqlite:///")))
            yield Finding("database", "kept in", f"{where}, which the first start makes", wrong=wrong)
        else:
            n_keys = state.n_live_keys
            yield Finding("database", "kept in", state.name)
            yield Finding("database", "tables", "current" if state.is_current else "older: the next start updates them")
            can = "yes" if state.not_writable is None else "no"
            yield Finding("database", "writable", can, wrong=state.not_writable)
    yield from _keys(config.server, n_keys)


def _why_not_made(file: Path) -> str | None:
    """Why the database cannot be made there; None: nothing is in the way."""
    there = next(parent for parent in file.absolute().parents if parent.exists())
    if there.is_dir() and os.access(there, os.W_OK | os.X_OK):
        return None
    return f"Nothing can be written to {there}: name another database."


def _keys(server: ServerConfig, n_keys: int) -> Iterator[Finding]:
    static = "" if server.api_key is None else "api_key, and "
    wrong, advice = None, None
    try:
        check_exposure(server, n_keys)
    except ConfigurationError as error:
        wrong = str(error)
    if wrong is None and server.api_key is None and n_keys == 0:
        advice = "Without a key everybody on this machine may use the server."
    yield Finding("keys", "live", f"{static}{n_keys} in the database", wrong=wrong, advice=advice)


def redis(config: Config) -> Iterator[Finding]:
    """The Redis that limits are shared through."""
    if config.gateway.redis is None:
        return
    from afterword.gateway.inspection import inspect_redis

    problem = inspect_redis(config.gateway.redis)
    # Without user and password.
    where = urlsplit(config.gateway.redis)
    found = f"{where.hostname or where.path}: {'answers' if problem is None else 'does not answer'}"
    yield Finding(
        "redis", "limits", found, wrong=None if problem is None else f"Redis cannot be used: {problem.rstrip('.')}."
    )


def vendors(config: Config, *, ask: bool) -> Iterator[Finding]:
    """Vendors, and with `ask` whether each has the models that are configured for it."""
    for vendor in config.vendors:
        about = f"vendor {vendor.name}"
        yield Finding(about, "url", vendor.url)
        for model in config.models if ask else ():
            if vendor.name in model.vendors:
                name = model.name if model.upstream_model is None else model.upstream_model
                problem = ask_about(vendor, name).problem
                wrong = None if problem is None else f"It cannot be asked about the model {name}: {problem}."
                yield Finding(about, f"model {name}", "answers" if problem is None else None, wrong=wrong)


def port(config: Config) -> Iterator[Finding]:
    """Whether the address can be listened on, or has a server of this program on it already."""
    server = config.server
    where = f"{server.host}:{server.port}"
    family = socket.AF_INET6 if ":" in server.host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((server.host.strip("[]"), server.port))
        except OSError as error:
            running = _running(server)
            wrong = f"Nobody can listen on {where}: {error.strerror}." if running is None else None
            yield Finding("port", where, running or "not free", wrong=wrong)
            return
    reach = "this machine" if is_loopback(server.host) else "others"
    yield Finding("port", where, f"free, for {reach} to reach")


def _running(server: ServerConfig) -> str | None:
    """What a server of this program that listens there says of itself; None: there is none."""
    host = {"0.0.0.0": "127.0.0.1", "::": "[::1]", "[::]": "[::1]"}.get(server.host, server.host)
    host = f"[{host}]" if ":" in host and not host.startswith("[") else host
    try:
        about = httpx.get(f"http://{host}:{server.port}/v1", timeout=SECONDS, trust_env=False).json()
    except (httpx.HTTPError, httpx.InvalidURL, ValueError):
        return None
    is_ours = isinstance(about, dict) and about.get("name") == "afterword"
    return f"afterword {about.get('version')} serves there" if is_ours else None
