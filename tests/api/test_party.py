import pytest
from starlette.types import Message, Scope
from tests.api.gateways import ListedRows, gateway_of
from tests.api.served import app_of, assert_error, client_of

from afterword.api.exchange import Exchange
from afterword.api.party import claim_of
from afterword.engine.line import Claim
from afterword.engine.trace import Trace
from afterword.gateway.grant import Grant
from afterword.tracing.tracer import Timeline


async def nowhere(_: Message) -> None: ...


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
    exchange = Exchange(Trace("req_1"), Timeline(0.0), nowhere, grant=Grant(key_id, None))
    scope: Scope = {"client": client, "state": {"exchange": exchange}}
    assert claim_of(scope, None) == Claim(party, "req_1")


@pytest.mark.parametrize(
    ("own", "asked", "priority"), [(0, None, 0), (-5, None, -5), (-5, 0, 0), (-5, -5, -5), (7, 8, 8), (0, 3, 3)]
)
def test_a_request_has_its_key_s_priority_or_a_later_one(own: int, asked: int | None, priority: int) -> None:
    exchange = Exchange(Trace("req_1"), Timeline(0.0), nowhere, grant=Grant("k", None, priority=own))
    assert claim_of({"client": None, "state": {"exchange": exchange}}, asked) == Claim("k", "req_1", priority)


@pytest.mark.parametrize("own", [0, 7])
async def test_an_earlier_priority_than_the_key_s_is_refused(own: int) -> None:
    gateway = gateway_of({"k": Grant("k", "a", priority=own)}, ledger=ListedRows())
    async with client_of(app_of(gateway=gateway), authorization="Bearer k") as client:
        for priority, status in ((own - 1, 400), (own, 200), (own + 1, 200)):
            answer = await client.post("/v1/completions", json={"prompt": "a", "max_tokens": 1, "priority": priority})
            assert answer.status_code == status
            if status == 400:
                error = assert_error(answer, 400, "priority", "integer_below_min_value")
                assert f"at least {own} with this API key, not {priority}" in error["message"]
