"""From the configuration to a gateway."""

from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from afterword.config.load import load_config
from afterword.config.tree import Config, ServerConfig
from afterword.errors import ConfigurationError, NotAuthenticated
from afterword.gateway.database import open_database
from afterword.gateway.key_store import KeyTerms, create_key, revoke_key
from afterword.gateway.ledger import StoredLedger
from afterword.gateway.opening import check_exposure, check_gateway, is_loopback, open_gateway
from afterword.gateway.static import KEYLESS, NoLedger, OpenKeys, SingleKey
from afterword.gateway.stored_keys import StoredKeys

NOW = datetime.now(UTC)


def configured(where: Path | str, **flags: str) -> Config:
    return load_config({"database": str(where), **flags}, {}, Path("/"))


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.5", "example.org"])
def test_other_machines_are_served_only_with_a_key(host: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        check_exposure(ServerConfig(host=host), n_keys=0)
    assert str(caught.value).startswith(f"host is {host}, which other machines may reach, and there is no key")
    assert "`afterword keys create NAME`, or set AFTERWORD_API_KEY" in str(caught.value)
    check_exposure(ServerConfig(host=host), n_keys=1)
    check_exposure(ServerConfig(host=host, api_key="k"), n_keys=0)
    check_exposure(ServerConfig(host="127.0.0.1"), n_keys=0)


@pytest.mark.parametrize(
    ("host", "expected"),
    [("127.0.0.1", True), ("127.8.8.8", True), ("::1", True), ("[::1]", True), ("LocalHost", True), ("local", False)],
)
def test_loopback_addresses_are_told_apart(host: str, expected: bool) -> None:
    assert is_loopback(host) is expected


def test_other_machines_are_served_once_there_is_a_live_key(prepared: Path | str) -> None:
    exposed = configured(prepared, host="0.0.0.0")
    with closing(open_database(prepared)) as database:
        create_key(database, KeyTerms("expired", expires=NOW - timedelta(days=1)), NOW)
        with pytest.raises(ConfigurationError, match=r"there is no key .* `afterword keys create NAME`"):
            check_gateway(exposed)
        create_key(database, KeyTerms("good"), NOW)
        check_gateway(exposed)
        revoke_key(database, "good", NOW)
        with pytest.raises(ConfigurationError, match="there is no key"):
            check_gateway(exposed)


def test_without_a_database_only_the_static_key_counts() -> None:
    with pytest.raises(ConfigurationError, match="there is no key"):
        check_gateway(configured("none", host="0.0.0.0"))
    check_gateway(configured("none", host="0.0.0.0", api_key="k"))
    check_gateway(configured("none"))


async def test_without_a_database_nothing_is_kept() -> None:
    gateway = open_gateway(configured("none"))
    assert isinstance(gateway.keys, OpenKeys)
    assert isinstance(gateway.ledger, NoLedger)
    assert isinstance(open_gateway(configured("none", api_key="k")).keys, SingleKey)


@pytest.mark.parametrize(("host", "is_open"), [("127.0.0.1", True), ("0.0.0.0", False)])
async def test_only_a_loopback_server_is_open_while_there_are_no_keys(
    prepared: Path | str, host: str, is_open: bool
) -> None:
    gateway = open_gateway(configured(prepared, host=host))
    assert isinstance(gateway.keys, StoredKeys)
    assert isinstance(gateway.ledger, StoredLedger)
    try:
        if is_open:
            assert await gateway.keys.find([], None) == KEYLESS
        else:
            with pytest.raises(NotAuthenticated):
                await gateway.keys.find([], None)
    finally:
        await gateway.keys.aclose()
        await gateway.limiter.aclose()
        await gateway.ledger.aclose()
