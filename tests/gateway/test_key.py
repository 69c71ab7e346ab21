"""What keys look like and which are right."""

import hmac

import pytest
from hypothesis import given
from hypothesis import strategies as st

from afterword.gateway.key import hash_of, id_of, matches, new_id, new_key

ID = "3fGh7JkLmN0p"
SECRET = "A" * 43
KEY = f"aw-{ID}-{SECRET}".encode()


def test_a_new_key_carries_its_id_and_is_of_letters_and_digits() -> None:
    text = new_key(ID)
    assert text.startswith("aw-3fGh7JkLmN0p-")
    assert len(text) == 59
    assert text.removeprefix("aw-3fGh7JkLmN0p-").isalnum()
    assert text.isascii()


def test_no_two_keys_or_ids_are_the_same() -> None:
    assert len({new_key(ID) for _ in range(1000)}) == 1000
    assert len({new_id() for _ in range(1000)}) == 1000


@given(st.binary(max_size=80))
def test_the_id_of_any_bytes_is_read_or_they_are_no_key(key: bytes) -> None:
    assert id_of(key) is None or key.startswith(b"aw-" + (id_of(key) or "").encode() + b"-")


@given(st.integers(0, 58), st.integers(0, 255))
def test_a_key_with_one_byte_changed_is_no_key_or_not_this_one(place: int, byte: int) -> None:
    changed = KEY[:place] + bytes([byte]) + KEY[place + 1 :]
    assert matches(changed, hash_of(KEY), None) is (changed == KEY)


@pytest.mark.parametrize(
    "key",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"sk-abcdef", id="another kind"),
        pytest.param(KEY[:-1], id="a character short"),
        pytest.param(KEY + b"A", id="a character long"),
        pytest.param(KEY + b"\n", id="a line feed after it"),
        pytest.param(KEY.replace(b"A", b"\xc3", 1), id="not ASCII"),
        pytest.param(KEY.replace(b"aw-", b"AW-"), id="upper case"),
    ],
)
def test_what_is_not_written_like_a_key_has_no_id(key: bytes) -> None:
    assert id_of(key) is None


def test_a_key_is_right_by_its_current_or_its_previous_hash() -> None:
    other = hash_of(b"another")
    assert matches(KEY, hash_of(KEY), None)
    assert matches(KEY, other, hash_of(KEY))
    assert not matches(KEY, other, None)
    assert not matches(KEY, other, other)
    assert not matches(KEY, None, None)


@pytest.mark.parametrize(
    ("current", "previous"),
    [(None, None), (hash_of(KEY), None), (hash_of(b"x"), hash_of(KEY)), (hash_of(KEY), hash_of(KEY))],
    ids=["unknown", "right", "right before", "right twice"],
)
def test_one_hash_is_compared_twice_whatever_there_is_to_compare_with(
    monkeypatch: pytest.MonkeyPatch, current: bytes | None, previous: bytes | None
) -> None:
    compared: list[tuple[bytes, int]] = []

    def compare(one: bytes, other: bytes) -> bool:
        compared.append((one, len(other)))
        return one == other

    monkeypatch.setattr(hmac, "compare_digest", compare)
    matches(KEY, current, previous)
    assert compared == [(hash_of(KEY), 32), (hash_of(KEY), 32)]
