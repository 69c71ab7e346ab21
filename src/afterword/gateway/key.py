"""The format of API keys, and their verification. Knows no storage.

A key is `aw-ID-SECRET`: the id is public and finds the row; the secret is stored only as a hash of the whole text.
"""

import hashlib
import hmac
import re
import secrets
import string

ALPHABET = string.ascii_letters + string.digits
ID_LENGTH = 12
SECRET_LENGTH = 43
"""Letters and digits: 256 random bits, which cannot be guessed from a fast hash."""

_KEY = re.compile(rb"aw-([A-Za-z0-9]{%d})-[A-Za-z0-9]{%d}" % (ID_LENGTH, SECRET_LENGTH))

_NO_KEYS_HASH = secrets.token_bytes(hashlib.sha256().digest_size)
"""A hash of no key, to compare with where there is none, so that this takes the same time."""


def new_id() -> str:
    """A public id that no other key has."""
    return _random(ID_LENGTH)


def new_key(key_id: str) -> str:
    """A fresh key of that id."""
    return f"aw-{key_id}-{_random(SECRET_LENGTH)}"


def id_of(key: bytes) -> str | None:
    """The public id in a key; None if it is not written like one."""
    found = _KEY.fullmatch(key)
    return None if found is None else found[1].decode("ascii")


def hash_of(key: bytes) -> bytes:
    """The hash that is stored of a key."""
    return hashlib.sha256(key).digest()


def matches(key: bytes, current: bytes | None, previous: bytes | None) -> bool:
    """Whether a key has one of two hashes, None where there is none.

    Always one hash and two comparisons in constant time: the time depends neither on how much of the key is right nor
    on whether there was anything to compare with.
    """
    own = hash_of(key)
    is_current = hmac.compare_digest(own, _NO_KEYS_HASH if current is None else current)
    is_previous = hmac.compare_digest(own, _NO_KEYS_HASH if previous is None else previous)
    return is_current or is_previous


def _random(length: int) -> str:
    return "".join(secrets.choice(ALPHABET) for _ in range(length))
