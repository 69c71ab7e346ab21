"""Which gateway a server has: from the configuration to keys, limiter and ledger."""

from afterword.config import Config
from afterword.gateway.base import Gateway
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
