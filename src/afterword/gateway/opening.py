"""Makes the gateway of a configuration: keys, limiter and ledger.

Modules that need a database, Redis or the libraries for limits are imported only if those are configured: each takes
half a second to load.
"""

import ipaddress

from afterword.config.tree import Config, ServerConfig
from afterword.errors import ConfigurationError
from afterword.gateway.interfaces import Gateway, Limiter
from afterword.gateway.static import NoLedger, OpenKeys, SingleKey
from afterword.gateway.unlimited import Unlimited

OPEN = Gateway(OpenKeys(), Unlimited(), NoLedger())
"""Needs no key, limits nothing and stores nothing."""


def single_key_gateway(key: str) -> Gateway:
    """One `key` that may do everything; limits nothing and stores nothing."""
    return Gateway(SingleKey(key), Unlimited(), NoLedger())


def check_gateway(config: Config) -> None:
    """Bring the database up to date, and refuse to serve other machines without a key (docs/rules.md#open-on-loopback).

    Raises `ConfigurationError`; to be called before anything that takes long.
    """
    n_keys = 0
    if config.gateway.database is not None:
        from afterword.gateway.storage import count_live_keys

        n_keys = count_live_keys(config.gateway.database)
    check_exposure(config.server, n_keys)


def open_gateway(config: Config) -> Gateway:
    """The gateway of the configuration, with the database if there is one. Raises `ConfigurationError`."""
    api_key, where = config.server.api_key, config.gateway.database
    if where is None:
        return OPEN if api_key is None else single_key_gateway(api_key)
    from afterword.gateway.storage import open_storage

    static = None if api_key is None else SingleKey(api_key)
    keys, ledger = open_storage(where, static, open_until_first_key=is_loopback(config.server.host))
    return Gateway(keys, open_limiter(config.gateway.redis), ledger)


def change_key(gateway: Gateway, config: Config) -> Gateway:
    """The gateway of another configuration with the same database and Redis: only the static key may differ."""
    api_key = config.server.api_key
    static = None if api_key is None else SingleKey(api_key)
    if isinstance(gateway.keys, OpenKeys | SingleKey):
        return OPEN if api_key is None else single_key_gateway(api_key)
    from afterword.gateway.stored_keys import StoredKeys

    assert isinstance(gateway.keys, StoredKeys), "keys are static or stored"
    gateway.keys.change_static(static)
    return gateway


def open_limiter(redis: str | None) -> Limiter:
    """The limiter for keys that may have limits: shared through the Redis at that URL, None: for this process alone."""
    if redis is None:
        from afterword.gateway.limiter import memory_limiter

        return memory_limiter()
    from afterword.gateway.limiter_shared import redis_limiter

    return redis_limiter(redis)


def check_exposure(server: ServerConfig, n_keys: int) -> None:
    """Refuse to serve other machines without a key (docs/rules.md#open-on-loopback).

    `n_keys` counts the keys in the database that are valid now. Raises `ConfigurationError`.
    """
    if server.api_key is None and n_keys == 0 and not is_loopback(server.host):
        raise ConfigurationError(
            f"host is {server.host}, which other machines may reach, and there is no key that clients must send: make "
            "one with `afterword keys create NAME`, or set AFTERWORD_API_KEY (or api_key in the configuration file), "
            "or listen on 127.0.0.1."
        )


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach `host`; a name other than localhost counts as reachable."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host.lower() == "localhost"
