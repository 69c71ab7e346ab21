"""A server that is open or has one key."""

import hmac

import pytest

from afterword.errors import NotAuthenticated
from afterword.gateway.grant import Grant
from afterword.gateway.static import OpenKeys, SingleKey


@pytest.mark.parametrize("offered", [(), (b"anything",)], ids=["no key", "some key"])
async def test_an_open_server_lets_everybody_do_everything(offered: tuple[bytes, ...]) -> None:
    grant = await OpenKeys().find(offered, "some account")
    assert grant == Grant(key_id=None, account_id=None, keyless=True)
    assert grant.allows("any/model")


@pytest.mark.parametrize(
    "offered",
    [(b"secret",), (b"wrong", b"secret"), (b"secret", b"wrong")],
    ids=["alone", "after a wrong one", "before a wrong one"],
)
async def test_the_one_key_opens_everything_wherever_it_is_among_those_offered(offered: tuple[bytes, ...]) -> None:
    assert await SingleKey("secret").find(offered, None) == Grant(key_id=None, account_id=None)


async def test_a_key_outside_ascii_is_compared_as_utf_8() -> None:
    assert await SingleKey("Schlüssel").find(["Schlüssel".encode()], None) == Grant(key_id=None, account_id=None)


async def test_without_a_key_it_says_where_to_put_one() -> None:
    with pytest.raises(NotAuthenticated, match=r"This server asks for an API key\. Send it as 'Authorization: Bearer"):
        await SingleKey("secret").find((), None)


@pytest.mark.parametrize("key", [b"", b"s", b"secre", b"secret ", b"SECRET", b"\xff\xfe", b"secretsecret"])
async def test_any_other_key_is_refused(key: bytes) -> None:
    with pytest.raises(NotAuthenticated, match="is not the one this server expects"):
        await SingleKey("secret").find([key], None)


async def test_every_offered_key_is_compared_however_soon_one_is_right(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[bytes] = []

    def compare(one: bytes, other: bytes) -> bool:
        compared.append(one)
        return one == other

    monkeypatch.setattr(hmac, "compare_digest", compare)
    await SingleKey("secret").find([b"secret", b"a", b"b"], None)
    assert compared == [b"secret", b"a", b"b"]
