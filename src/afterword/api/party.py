"""Who shares a model with others: the client of a request, as its turns are counted (docs/rules.md#turns)."""

import ipaddress

from starlette.types import Scope

from afterword.api.auth import grant_of
from afterword.api.exchange import exchange_of
from afterword.engine.line import Claim
from afterword.errors import InvalidRequest

NETWORK_BITS = 64
"""Of an IPv6 address: what one customer of a provider has at least."""


def claim_of(scope: Scope, priority: int | None) -> Claim:
    """On whose behalf a request asks for slots: its key's, or where it has none of its own its client's address.

    `priority` is the request's. Raises `InvalidRequest` if that is earlier than its key's.
    """
    exchange, grant = exchange_of(scope), grant_of(scope)
    if priority is not None and priority < grant.priority:
        raise InvalidRequest(
            f"'priority' must be at least {grant.priority} with this API key, not {priority}: lower is earlier. A key "
            "for earlier requests is made with `afterword keys create NAME --priority N`.",
            param="priority",
            code="integer_below_min_value",
        )
    party = _address(scope.get("client")) if grant.key_id is None else grant.key_id
    return Claim(party, exchange.request_id, grant.priority if priority is None else priority)


def _address(client: tuple[str, int] | None) -> str:
    """Empty for a socket without one."""
    host = "" if client is None else client[0]
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host
    return str(ipaddress.ip_network((address, NETWORK_BITS), strict=False)) if address.version == 6 else host
