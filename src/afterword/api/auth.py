"""The one static API key: where clients put it, and whether it is right. Knows no accounts."""

import base64
import binascii
import hmac
from collections.abc import Iterator

from starlette.types import ASGIApp, Receive, Scope, Send

from afterword.errors import NotAuthenticated

OPEN_PATHS = frozenset({"/health", "/ready"})
"""Answered without a key: probes have none."""


class KeyMiddleware:
    """Raises `NotAuthenticated` unless a request carries the key. CORS preflights never come this far."""

    def __init__(self, app: ASGIApp, key: str) -> None:
        self._app = app
        self._key = key.encode("utf-8")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check, then pass on."""
        if scope["type"] == "http" and scope["path"] not in OPEN_PATHS:
            self._check(list(offered_keys(scope["headers"])))
        await self._app(scope, receive, send)

    def _check(self, offered: list[bytes]) -> None:
        if not offered:
            raise NotAuthenticated(
                "This server asks for an API key. Send it as 'Authorization: Bearer KEY', as an 'api-key' or "
                "'x-api-key' header, or as the password of HTTP Basic."
            )
        # Every key is compared, on bytes: the time tells nothing, and characters outside ASCII are no error.
        right = [hmac.compare_digest(key, self._key) for key in offered]
        if not any(right):
            raise NotAuthenticated("The API key sent with this request is not the one this server expects.")


def offered_keys(headers: list[tuple[bytes, bytes]]) -> Iterator[bytes]:
    """Every key in raw ASGI headers, in any of the places of SPEC section 1; empty ones are none.

    Of several `Authorization` headers none counts: a proxy in front may have looked at another one than we would.
    """
    names = [name for name, _ in headers]
    for name, value in headers:
        if name == b"authorization" and names.count(name) > 1:
            continue
        if name in (b"api-key", b"x-api-key"):
            key = value.strip()
        elif name == b"authorization":
            key = _authorization_key(value)
        else:
            continue
        if key:
            yield key


def _authorization_key(value: bytes) -> bytes:
    scheme, _, rest = value.strip().partition(b" ")
    if scheme.lower() == b"bearer":
        return rest.strip()
    if scheme.lower() == b"basic":
        try:
            user_and_password = base64.b64decode(rest.strip(), validate=True)
        except binascii.Error:
            return b""
        return user_and_password.partition(b":")[2]
    return b""
