import pytest
from starlette.types import Scope

from afterword.api.exchange import Exchange
from afterword.api.party import claim_of
from afterword.engine.line import Claim
from afterword.engine.trace import Trace
from afterword.gateway.grant import Grant
from afterword.tracing.tracer import Timeline


@pytest.mark.parametrize(
    ("key_id", "client", "party"),
    [
        pytest.param("k1", ("10.0.0.1", 5000), "k1", id="key"),
        pytest.param(None, ("10.0.0.1", 5000), "10.0.0.1", id="address"),
        pytest.param(None, ("2001:db8:1:2:3:4:5:6", 5000), "2001:db8:1:2::/64", id="network"),
        pytest.param(None, ("::1", 5000), "::/64", id="loopback"),
        pytest.param(None, None, "", id="socket-without-an-address"),
        pytest.param(None, ("testclient", 5000), "testclient", id="name"),
    ],
)
def test_a_party_is_a_key_or_else_an_address(key_id: str | None, client: tuple[str, int] | None, party: str) -> None:
    exchange = Exchange(Trace("req_1"), Timeline(0.0), grant=Grant(key_id, None))
    scope: Scope = {"client": client, "state": {"exchange": exchange}}
    assert claim_of(scope) == Claim(party, "req_1")
