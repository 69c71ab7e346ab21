"""Where clients put their key, and the account they want charged."""

import base64

import pytest

from afterword.api.auth import offered_keys, selected_account


def basic(user_and_password: bytes) -> bytes:
    return b"Basic " + base64.b64encode(user_and_password)


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        pytest.param(b"authorization", b"Bearer secret", [b"secret"], id="bearer"),
        pytest.param(b"authorization", b"bEARER   secret ", [b"secret"], id="bearer in any case"),
        pytest.param(b"authorization", b"Bearer ", [], id="empty bearer"),
        pytest.param(b"authorization", b"Bearer", [], id="bare bearer"),
        pytest.param(b"authorization", b"secret", [], id="no scheme"),
        pytest.param(b"authorization", b"Digest secret", [], id="other scheme"),
        pytest.param(b"authorization", basic(b":secret"), [b"secret"], id="basic without user"),
        pytest.param(b"authorization", basic(b"me:se:cret"), [b"se:cret"], id="basic, colon in the password"),
        pytest.param(b"authorization", basic(b"me:secret\n"), [b"secret"], id="cli-10 basic, read from a file"),
        pytest.param(b"authorization", basic(b"secret"), [], id="basic without password"),
        pytest.param(b"authorization", b"Basic %%%", [], id="basic, not base64"),
        pytest.param(b"authorization", b"Basic \xff\xfe", [], id="basic, not ASCII"),
        pytest.param(b"api-key", b"secret", [b"secret"], id="api-key"),
        pytest.param(b"x-api-key", b" secret", [b"secret"], id="x-api-key"),
        pytest.param(b"x-request-id", b"secret", [], id="another header"),
    ],
)
def test_a_key_is_found_in_each_of_its_places(name: bytes, value: bytes, expected: list[bytes]) -> None:
    assert list(offered_keys([(name, value)])) == expected


def test_all_keys_are_offered() -> None:
    headers = [(b"authorization", b"Bearer one"), (b"accept", b"*/*"), (b"api-key", b"two")]
    assert list(offered_keys(headers)) == [b"one", b"two"]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        pytest.param([], None, id="none"),
        pytest.param([b"acme"], "acme", id="one"),
        pytest.param([b" acme "], "acme", id="spaces around it"),
        pytest.param([b""], None, id="empty"),
        pytest.param(["k\u00e4se".encode()], "k\u00e4se", id="UTF-8"),
        pytest.param([b"\xff"], "\ufffd", id="no text"),
        pytest.param([b"first", b"second"], "first", id="the first of several"),
    ],
)
def test_the_account_to_charge_is_read_from_its_header(values: list[bytes], expected: str | None) -> None:
    assert selected_account([(b"x-selected-account-id", value) for value in values]) == expected
