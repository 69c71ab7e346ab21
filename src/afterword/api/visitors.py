"""Which requests of web pages are answered, by `Origin` and `Host`: a browser sets both, and no page can change them.

docs/rules.md#pages-of-others, docs/rules.md#names-of-the-server
"""

from ipaddress import ip_address
from urllib.parse import urlsplit

import structlog
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from afterword.api.error_responses import HttpRefusal, describe
from afterword.text.brief import brief

OWN_NAMES = frozenset({"localhost", "host.docker.internal", "host.containers.internal"})
"""Names that mean this machine, in it and in its containers. Nobody can register them."""

ANY = "*"

MOST_TOLD = 100
"""Origins and names of which the log has a line; whoever makes up more gets no more."""


class Visitors:
    """Knows the origins and names that the configuration admits. On the event loop."""

    def __init__(self, origins: tuple[str, ...], hosts: tuple[str, ...]) -> None:
        self._origins = frozenset(origins)
        self._hosts = frozenset(host.lower() for host in hosts)
        self._told: set[str] = set()

    def check_page(self, headers: Headers) -> None:
        """Raise `HttpRefusal` for a page of another site that the configuration does not name."""
        origin = headers.get("origin")
        if origin is None or self._origins & {origin, ANY} or _is_own(origin, headers):
            return
        self._tell(origin, f'cors_origins = ["{brief(origin)}"]')
        raise HttpRefusal(403, f"A page of '{brief(origin)}' may not use this server: cors_origins does not name it.")

    def check_host(self, headers: Headers) -> None:
        """Raise `HttpRefusal` for a name of this server that somebody else may have made, to be its page's own."""
        host = headers.get("host", "")
        name = _name(host)
        if name == "" or name in OWN_NAMES or name.endswith(".localhost") or _is_address(name):
            return
        if not self._hosts & {name, ANY}:
            self._tell(name, f'allowed_hosts = ["{brief(name)}"]')
            raise HttpRefusal(
                403,
                "This server asks for no key, so it answers under names of this machine only and not as "
                f"'{brief(host)}': allowed_hosts does not name it.",
            )

    def _tell(self, who: str, setting: str) -> None:
        """Once for each, how it would be admitted."""
        if who not in self._told and len(self._told) < MOST_TOLD:
            self._told.add(who)
            structlog.get_logger("afterword.http").warning("page turned away", who=brief(who), admitted_by=setting)


class PreflightMiddleware:
    """Refuses to let a page ask that `check_page` refuses. CORS, which answers all others, is within it."""

    def __init__(self, app: ASGIApp, visitors: Visitors) -> None:
        self._app = app
        self._visitors = visitors

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer the preflight, or call the application."""
        if scope["type"] == "http" and scope["method"] == "OPTIONS":
            headers = Headers(scope=scope)
            try:
                if "access-control-request-method" in headers:
                    self._visitors.check_page(headers)
            except HttpRefusal as refusal:
                await describe(refusal, scope).response()(scope, receive, send)
                return
        await self._app(scope, receive, send)


def _is_own(origin: str, headers: Headers) -> bool:
    """Whether the page came from this server. Behind a proxy that says another `Host` only the browser knows."""
    if headers.get("sec-fetch-site") == "same-origin":
        return True
    return origin.partition("://")[2].lower() == headers.get("host", "").lower() != ""


def _name(host: str) -> str:
    """Of `Host`: without the port, in lower case; what is no `Host` stays as it is."""
    try:
        found = urlsplit(f"//{host}").hostname
    except ValueError:
        return host
    return "" if found is None else found.removesuffix(".")


def _is_address(name: str) -> bool:
    """Whether it is a number: those lead to one machine, whoever says them."""
    try:
        ip_address(name)
    except ValueError:
        return False
    return True
