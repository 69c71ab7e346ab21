"""Which gateway a server has: from the configuration to keys, limiter and ledger."""

from afterword.config import Config
from afterword.gateway.base import Gateway, Limiter
from afterword.gateway.static import NoLedger, OpenKeys, SingleKey
from afterword.gateway.unlimited import Unlimited

OPEN = Gateway(OpenKeys(), Unlimited(), NoLedger())
"""Lets everybody do everything and keeps nothing."""


def single_key_gateway(key: str) -> Gateway:
    """Everything for who has the one `key`; nothing is limited or kept."""
    return Gateway(SingleKey(key), Unlimited(), NoLedger())


def open_gateway(config: Config) -> Gateway:
    """Who may use the server, as the configuration says."""
    return OPEN if config.server.api_key is None else single_key_gateway(config.server.api_key)


def open_limiter(redis: str | None) -> Limiter:
    """The limiter for keys that may have limits: shared through the Redis at that URL, None: this process alone."""
    # Here and not above: the libraries take half a second to load, and servers without stored keys need none of them.
    if redis is None:
        from afterword.gateway.limiter import memory_limiter

        return memory_limiter()
    from afterword.gateway.limiter_shared import redis_limiter

    return redis_limiter(redis)
