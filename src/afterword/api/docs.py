"""`/docs`: the OpenAPI description as one page to read. No script and nothing from other hosts, so it works offline."""

from html import escape
from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from afterword.api.serving import from_here
from afterword.api.wire import dumps

router = APIRouter()

SECURITY_POLICY = "default-src 'none'; style-src 'unsafe-inline'"

_STYLE = (
    ":root{color-scheme:light dark}"
    "body{font:16px/1.5 system-ui,sans-serif;max-width:62rem;margin:2rem auto;padding:0 1rem}"
    "table{border-collapse:collapse;width:100%}td,th{text-align:left;vertical-align:top;padding:.35rem .6rem;"
    "border-top:1px solid #8886}code{font:.9em ui-monospace,monospace}h2{margin-top:2.5rem}"
)


@router.get("/docs", include_in_schema=False)
async def docs(request: Request) -> Response:
    """Every route, and every field of a completion request."""
    text = page(request.app.openapi(), from_here(request, "openapi.json"))
    return HTMLResponse(text, headers={"content-security-policy": SECURITY_POLICY})


def page(openapi: dict[str, Any], where: str) -> str:
    """The HTML of an OpenAPI document whose schemas have a `CompletionBody`; `where` is a reference to it."""
    info = openapi["info"]
    title = f"{info['title']} {info['version']}"
    fields = openapi["components"]["schemas"]["CompletionBody"]["properties"]
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style><h1>{escape(title)}</h1>"
        f'<p>The whole description for programs: <a href="{escape(where)}">openapi.json</a>.</p>'
        f"<h2>Routes</h2>{_table(('Route', 'What it does'), _routes(openapi['paths']))}"
        "<h2>Fields of a completion request</h2>"
        f"{_table(('Field', 'Takes', 'Default', 'What it does'), [_field(*item) for item in fields.items()])}</html>"
    )


def _table(heads: tuple[str, ...], rows: list[list[str]]) -> str:
    """Cells are HTML."""
    head = "".join(f'<th scope="col">{escape(text)}</th>' for text in heads)
    body = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _routes(paths: dict[str, Any]) -> list[list[str]]:
    return [
        [f"<code>{escape(method.upper())} {escape(path)}</code>", escape(about.get("description", about["summary"]))]
        for path, methods in paths.items()
        for method, about in methods.items()
    ]


def _field(name: str, schema: dict[str, Any]) -> list[str]:
    default = "" if schema.get("default") is None else f"<code>{escape(dumps(schema['default']).decode())}</code>"
    return [f"<code>{escape(name)}</code>", escape(kinds(schema)), default, escape(schema.get("description", ""))]


def kinds(schema: dict[str, Any]) -> str:
    """The values that a schema allows, in words; null is not mentioned."""
    alternatives = schema.get("anyOf", schema.get("oneOf"))
    if alternatives is not None:
        return ", ".join(kind for one in alternatives if (kind := kinds(one)) != "null")
    if "$ref" in schema:
        return "object"
    kind = str(schema.get("type", "any"))
    if kind == "array" and "items" in schema:
        return f"array of {kinds(schema['items'])}"
    low, high = schema.get("minimum"), schema.get("maximum")
    if "exclusiveMinimum" in schema:
        return f"{kind} > {schema['exclusiveMinimum']}"
    return kind if low is None and high is None else f"{kind} {_range(low, high)}"


def _range(low: object, high: object) -> str:
    if high is None:
        return f">= {low}"
    return f"<= {high}" if low is None else f"{low} to {high}"
