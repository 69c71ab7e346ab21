"""Who shares a model with others: the client of a request, as its turns are counted (docs/rules.md#turns)."""

import ipaddress

from starlette.types import Scope

from afterword.api.exchange import exchange_of
from afterword.engine.line import Claim

NETWORK_BITS = 64
"""Of an IPv6 address: what one customer of a provider has at least."""


def claim_of(scope: Scope) -> Claim:
    """On whose behalf a request asks for slots: its key's, or where it has none of its own its client's address."""
    exchange = exchange_of(scope)
    key_id = None if exchange.grant is None else exchange.grant.key_id
    return Claim(_address(scope.get("client")) if key_id is None else key_id, exchange.request_id)


def _address(client: tuple[str, int] | None) -> str:
    """Empty for a socket without one."""
    host = "" if client is None else client[0]
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host
    return str(ipaddress.ip_network((address, NETWORK_BITS), strict=False)) if address.version == 6 else host
