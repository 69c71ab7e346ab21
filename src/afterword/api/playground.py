"""The playground: the page at `/` and the static files it is made of. Knows no model and asks for no key.

The files are package data in `afterword/playground/`, served as they are, without a build step. The URL of their folder
has a hash of all of them in it, so browsers cache them for good and a new version has a new URL.
"""

import gzip
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from fastapi import APIRouter
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from afterword.api.wire import dumps
from afterword.completions.parse import body_schema
from afterword.fields.field import FOLDED, GROUPS, RequestField
from afterword.fields.table import DECLARED, FIELDS

router = APIRouter()

PAGE = "index.html"
FIELDS_FILE = "fields.json"
"""The request's fields for the page, made from the table of fields."""

ASSETS_PLACE, PRELOAD_PLACE = "__ASSETS__", "<!-- preload -->"
"""Placeholders in the page: for its folder, and for the list of its modules, which are then fetched in parallel."""

SECURITY_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        # A script that turns a string, such as a model's text, into HTML or code gets an error.
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    )
)

_TYPES = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "json": "application/json",
    "svg": "image/svg+xml",
}

_COMMON = {
    "content-security-policy": SECURITY_POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "vary": "accept-encoding",
}

_FOR_GOOD = "public, max-age=31536000, immutable"


@dataclass(frozen=True, slots=True)
class Asset:
    """One file as it is sent."""

    content_type: str
    body: bytes
    compressed: bytes
    """The body, gzipped."""
    tag: str
    """Its ETag: weak, because both forms of the body have the same one."""


@dataclass(frozen=True, slots=True)
class Playground:
    """Every file of the page."""

    version: str
    """Hash of all files; the name of the folder they are served from."""
    page: Asset
    assets: Mapping[str, Asset]


@cache
def load() -> Playground:
    """Read and compress the packaged files, once for a process: they never change while it runs."""
    folder = files("afterword.playground")
    sources = {entry.name: entry.read_bytes() for entry in folder.iterdir() if entry.name.rpartition(".")[2] in _TYPES}
    page = sources.pop(PAGE).decode("utf-8")
    sources[FIELDS_FILE] = dumps(form())
    digest = hashlib.sha256(page.encode("utf-8"))
    for name in sorted(sources):
        digest.update(b"%b\0%b\0" % (name.encode("utf-8"), sources[name]))
    version = digest.hexdigest()[:16]
    place = f"playground/{version}"
    modules = sorted(name for name in sources if name.endswith(".js"))
    preload = "\n".join(f'<link rel="modulepreload" href="{place}/{name}">' for name in modules)
    page = page.replace(ASSETS_PLACE, place).replace(PRELOAD_PLACE, preload)
    assets = {name: _asset(name, body) for name, body in sources.items()}
    return Playground(version, _asset(PAGE, page.encode("utf-8")), assets)


def form() -> dict[str, Any]:
    """The fields of a completion request by name, and the groups in which the form shows those that a person sets.

    A field has its description, default, JSON type and range, where it has any; `control`, one of those that
    `controls.js` makes, or `by_page`, how the page sets it by itself; `documented`: clients have an argument for it.
    """
    properties = body_schema()["properties"]
    return {
        "groups": [
            {
                "title": title,
                "fields": [field.name for field in DECLARED if field.place == title],
                "open": title not in FOLDED,
            }
            for title in GROUPS
        ],
        "fields": {field.name: _field(field, properties[field.name]) for field in FIELDS},
    }


def _field(field: RequestField, rules: Mapping[str, Any]) -> dict[str, Any]:
    """One field, flat. A field that takes several shapes is described by the first."""
    shape = rules["anyOf"][0]
    kept = ("type", "minimum", "maximum", "exclusiveMinimum")
    entered = {"control": field.control} if field.place in GROUPS else {"by_page": field.place}
    return {
        "description": field.doc,
        "default": rules.get("default"),
        "documented": field.documented,
        **entered,
        **{key: shape[key] for key in kept if key in shape},
    }


def _asset(name: str, body: bytes) -> Asset:
    tag = f'W/"{hashlib.sha256(body).hexdigest()[:16]}"'
    return Asset(_TYPES[name.rpartition(".")[2]], body, gzip.compress(body, mtime=0), tag)


@router.api_route("/", methods=["GET", "HEAD"], include_in_schema=False)
async def page(request: Request) -> Response:
    """The page. Browsers revalidate it each time."""
    return _answer(request, load().page, "no-cache")


@router.api_route("/playground/{version}/{name}", methods=["GET", "HEAD"], include_in_schema=False)
async def asset(request: Request) -> Response:
    """One of the page's files, to be cached for good. 404 for those of another version."""
    playground = load()
    found = playground.assets.get(request.path_params["name"])
    if found is None or request.path_params["version"] != playground.version:
        raise HTTPException(404)
    return _answer(request, found, _FOR_GOOD)


def _answer(request: Request, asset: Asset, cache_control: str) -> Response:
    headers = {**_COMMON, "etag": asset.tag, "cache-control": cache_control, "content-type": asset.content_type}
    if asset.tag in (tag.strip() for tag in request.headers.get("if-none-match", "").split(",")):
        return Response(status_code=304, headers=headers)
    body = asset.body
    if _takes_gzip(request):
        body, headers["content-encoding"] = asset.compressed, "gzip"
    return Response(body, headers=headers)


def _takes_gzip(request: Request) -> bool:
    """Whether `Accept-Encoding` names gzip and does not refuse it with a weight of zero."""
    for offer in request.headers.get("accept-encoding", "").lower().split(","):
        coding, _, weight = offer.partition(";")
        if coding.strip() in ("gzip", "*"):
            return weight.replace(" ", "") not in ("q=0", "q=0.0", "q=0.00", "q=0.000")
    return False
