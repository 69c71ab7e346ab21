"""The routes about the server itself: liveness, readiness, metrics, version."""

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from afterword import __version__
from afterword.api.openapi import HEALTH_DOCS, METRICS_DOCS, READY_DOCS, WELCOME_DOCS
from afterword.api.serving import Serving, from_here, serving
from afterword.api.wire import json_response
from afterword.gateway.interfaces import DatabaseState
from afterword.metrics import CONTENT_TYPE

router = APIRouter(tags=["status"])


@router.get("/v1", **WELCOME_DOCS)
async def welcome(request: Request) -> Response:
    """The server's name and version, and its routes, relative to this one."""
    about = {
        "name": "afterword",
        "version": __version__,
        "completions": from_here(request, "v1/completions"),
        "models": from_here(request, "v1/models"),
        "documentation": from_here(request, "docs"),
        "default_model": serving(request).registry.get(None).name,
    }
    return json_response(about)


@router.get("/health", **HEALTH_DOCS)
@router.head("/health", include_in_schema=False)
async def health(request: Request) -> Response:
    """200 while every engine is alive, loading included; 503 once one has failed."""
    states = {served.name: served.engine.stats().state for served in serving(request).registry.all()}
    failed = "failed" in states.values()
    return json_response({"status": "failed" if failed else "ok", "models": states}, 503 if failed else 200)


@router.get("/ready", **READY_DOCS)
@router.head("/ready", include_in_schema=False)
async def ready(request: Request) -> Response:
    """200 once every engine takes requests; 503 before, and after one has failed or closed.

    So does a model that is loaded when it is asked for. A vendor that cannot be reached takes the server out of service
    only if no model is left, and a database only if no key is good any more: the others work. `problems` says why a
    model whose process ended is not ready.
    """
    serve = serving(request)
    stats = {served.name: served.engine.stats() for served in serve.registry.all()}
    states = {name: one.state for name, one in stats.items()}
    problems = {name: one.problem for name, one in stats.items() if one.problem is not None}
    database = await _database(serve)
    served = {"ready", "unloaded", "starting"}
    works = not served.isdisjoint(states.values()) and set(states.values()) <= {*served, "unreachable"}
    is_ready = works and database != "lost"
    status = "ready" if is_ready else "not ready"
    body = {"status": status, "models": states, "problems": problems, "database": database}
    return json_response(body, 200 if is_ready else 503)


@router.get("/metrics", **METRICS_DOCS)
async def metrics(request: Request) -> Response:
    """Prometheus text."""
    return Response(serving(request).recording.metrics.render(), headers={"content-type": CONTENT_TYPE})


async def _database(serve: Serving) -> DatabaseState:
    state = await serve.gateway.keys.database()
    return "down" if state == "up" and serve.gateway.ledger.backlog.is_stuck else state
