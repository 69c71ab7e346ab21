"""API keys in requests: where clients put them, and the grant of a valid one. Knows no storage."""

import base64
import binascii
from collections.abc import Iterator

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from afterword.api.dialect import Dialect
from afterword.api.exchange import exchange_of
from afterword.api.serving import serving_in
from afterword.api.visitors import Visitors
from afterword.errors import ModelNotFound, NotPermitted
from afterword.gateway.grant import Grant
from afterword.registry import Registry, ServedModel

OPEN_PATHS = frozenset({"/", "/health", "/ready"})
"""Answered without a key: probes have none, and the page at the root asks its user for one."""

OPEN_PREFIXES = ("/playground/",)
"""Where the files of that page are."""

ACCOUNT_HEADER = b"x-selected-account-id"


class KeyMiddleware:
    """Puts the grant on the request's exchange. Raises what `Keys.find` does, and for an open server what `Visitors`
    does; CORS preflights are answered before."""

    def __init__(self, app: ASGIApp, visitors: Visitors) -> None:
        self._app = app
        self._visitors = visitors

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Find the grant, then call the application."""
        if scope["type"] == "http" and not _is_open(scope["path"]):
            headers = scope["headers"]
            grant = await serving_in(scope).gateway.keys.find(tuple(offered_keys(headers)), selected_account(headers))
            if grant.keyless:
                self._visitors.check_host(Headers(scope=scope))
                self._visitors.check_page(Headers(scope=scope))
            exchange_of(scope).grant = grant
        await self._app(scope, receive, send)


def find_model(dialect: Dialect, registry: Registry, name: str | None, scope: Scope) -> ServedModel:
    """The model that the request means by `name`.

    Raises `ModelNotFound`, which lists those that its key may use, and `NotPermitted` if it may not use this one.
    """
    try:
        served = dialect.find(registry, name)
    except ModelNotFound as missing:
        # By names that every dialect takes, so that their errors are the same.
        names = [other.full_name for other in permitted_models(registry, scope)]
        raise ModelNotFound(missing.name, full_name=missing.full_name, names=names) from None
    if not grant_of(scope).allows(served.full_name):
        raise NotPermitted(f"This API key may not use the model '{served.full_name}'.")
    return served


def permitted_models(registry: Registry, scope: Scope) -> list[ServedModel]:
    """The models that the request's key may use, in the order of registration."""
    grant = grant_of(scope)
    return [served for served in registry.all() if grant.allows(served.full_name)]


def grant_of(scope: Scope) -> Grant:
    """What the request with this scope may do; only for routes that need a key."""
    grant = exchange_of(scope).grant
    assert grant is not None, "the route is none of those that are open"
    return grant


def offered_keys(headers: list[tuple[bytes, bytes]]) -> Iterator[bytes]:
    """Every key in raw ASGI headers, from any of its places (docs/rules.md#key-places); empty ones are none.

    Of several `Authorization` headers none counts: a proxy in front may have checked another one than we would.
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


def selected_account(headers: list[tuple[bytes, bytes]]) -> str | None:
    """The account that a client wants charged, None if it names none. Of several headers the first: the key must allow
    it in any case."""
    for name, value in headers:
        if name == ACCOUNT_HEADER:
            account = value.strip().decode("utf-8", "replace")
            return None if account == "" else account
    return None


def _is_open(path: str) -> bool:
    return path in OPEN_PATHS or path.startswith(OPEN_PREFIXES)


def _authorization_key(value: bytes) -> bytes:
    scheme, _, rest = value.strip().partition(b" ")
    if scheme.lower() == b"bearer":
        return rest.strip()
    if scheme.lower() == b"basic":
        try:
            user_and_password = base64.b64decode(rest.strip(), validate=True)
        except binascii.Error:
            return b""
        return user_and_password.partition(b":")[2].strip()
    return b""
