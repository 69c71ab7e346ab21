"""Puts the application together: routes, middleware, shutdown."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from functools import partial

from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match
from starlette.types import ASGIApp, Receive, Scope, Send

from afterword import __version__
from afterword.api import completions, docs, models_routes, playground, ratelimit, scale_models, score, status, tokenize
from afterword.api.auth import KeyMiddleware
from afterword.api.error_responses import FailureMiddleware, describe
from afterword.api.exchange import ExchangeMiddleware, OpenExchanges, Recording
from afterword.api.intake import Intake
from afterword.api.lanes import Lanes
from afterword.api.openapi import describe_api
from afterword.api.serving import Serving, serving_of
from afterword.api.stopping import Era, Stopping
from afterword.api.visitors import PreflightMiddleware, Visitors
from afterword.completions.filter.verdict import ContentFilter
from afterword.config.tree import ServerConfig
from afterword.gateway.interfaces import Gateway
from afterword.gateway.opening import OPEN
from afterword.metrics import Metrics, RequestMetrics
from afterword.registry import Registry
from afterword.tracing.tracer import Tracer

METHODS = ("GET", "POST", "HEAD")
"""The methods that routes have."""

EXPOSED_HEADERS = (
    "x-request-id",
    "openai-processing-ms",
    "openai-model",
    "openai-version",
    "retry-after",
    "x-timed-out",
    *ratelimit.HEADERS,
)

LIMITS_ALONE = "Requests whose limits this process counted for itself, because Redis could not be reached."

ROWS_WAITING = "Usage rows that are not in the database yet."
ROWS_LOST = "Usage rows that never will be: dropped or refused, each time with a line in the log."


def create_app(
    registry: Registry,
    server: ServerConfig,
    gateway: Gateway = OPEN,
    content_filter: ContentFilter | None = None,
    metrics: RequestMetrics | None = None,
    tracer: Tracer | None = None,
) -> FastAPI:
    """The application that serves `registry` to the clients that `gateway` admits. No state outside the app.

    It closes the engines, the gateway and `tracer` when it shuts down. `content_filter`: what `load_filter` makes of
    the server's own. `metrics`: where requests are counted, None: its own.
    """
    app = FastAPI(
        title="afterword",
        version=__version__,
        lifespan=_lifespan,
        redirect_slashes=False,
        docs_url=None,
        redoc_url=None,
    )
    counts = Metrics(registry.all()) if metrics is None else metrics
    counts.watch("afterword_limits_alone", LIMITS_ALONE, lambda: gateway.limiter.n_alone)
    counts.watch_gauge("afterword_ledger_rows_waiting", ROWS_WAITING, lambda: gateway.ledger.backlog.waiting)
    counts.watch("afterword_ledger_rows_lost", ROWS_LOST, lambda: gateway.ledger.backlog.lost)
    intake = Intake(server.max_body_bytes, server.bodies_bytes)
    recording = Recording(counts, OpenExchanges(), tracer)
    stopping = Stopping(Era(intake, recording.exchanges, registry.engines()))
    app.state.serving = Serving(registry, server, content_filter, gateway, recording, intake, Lanes(), stopping)
    for part in (completions, score, models_routes, scale_models, tokenize, status, docs, playground):
        app.include_router(part.router)
    app.add_exception_handler(HTTPException, _routing_failure)
    describe_api(app)
    _add_layers(app, server)
    return app


def _add_layers(app: FastAPI, server: ServerConfig) -> None:
    """From the inside out: preflights and errors get the headers of the outer layers, and need no key."""
    visitors = Visitors(server.cors_origins, server.allowed_hosts)
    app.add_middleware(KeyMiddleware, visitors=visitors)
    app.add_middleware(SlashMiddleware)
    app.add_middleware(FailureMiddleware)
    if server.cors_origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=server.cors_origins,
            allow_methods=(*METHODS, "OPTIONS"),
            allow_headers=("*",),
            expose_headers=EXPOSED_HEADERS,
            # Browsers require this for pages on the public web that call a server on the user's own machine.
            allow_private_network=True,
        )
    app.add_middleware(PreflightMiddleware, visitors=visitors)
    app.add_middleware(ExchangeMiddleware, current=partial(serving_of, app))


async def serve_with(
    app: FastAPI, registry: Registry, server: ServerConfig, gateway: Gateway, content_filter: ContentFilter | None
) -> None:
    """Serve the requests that begin from now on with these; `gateway` has the database and Redis of the old one.

    Returns once those from before have ended and engines that only they used are closed. Settings of connections, and
    of which pages may use the server, stay as they were.
    """
    old = serving_of(app)
    running = set(map(id, old.registry.engines()))
    for engine in registry.engines():
        if id(engine) not in running:
            engine.start()
    old.recording.metrics.show(registry.all())
    new = replace(
        old,
        registry=registry,
        server=server,
        gateway=gateway,
        content_filter=content_filter,
        recording=replace(old.recording, exchanges=OpenExchanges()),
        intake=Intake(server.max_body_bytes, server.bodies_bytes),
    )
    app.state.serving = new
    await new.stopping.change(Era(new.intake, new.recording.exchanges, registry.engines()))


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    """Close the engines first, then what records their requests, so that those they end are still recorded."""
    serve = serving_of(app)
    for engine in serve.registry.engines():
        engine.start()
    async with AsyncExitStack() as last_first:
        if serve.recording.tracer is not None:
            last_first.push_async_callback(asyncio.to_thread, serve.recording.tracer.close)
        for part in (serve.gateway.ledger, serve.gateway.limiter, serve.gateway.keys):
            last_first.push_async_callback(part.aclose)
        last_first.push_async_callback(serve.stopping.recorded)
        last_first.push_async_callback(serve.stopping.end)
        yield


async def _routing_failure(request: Request, error: Exception) -> Response:
    if isinstance(error, HTTPException) and error.status_code == 405:
        error = HTTPException(405, headers={"Allow": ", ".join(_allowed_methods(request))})
    return describe(error, request.scope).response()


def _allowed_methods(request: Request) -> list[str]:
    """Every method that the path takes; the refusing route knows only its own."""
    routes, scope = request.app.routes, request.scope
    return [m for m in METHODS if any(route.matches({**scope, "method": m})[0] is Match.FULL for route in routes)]


class SlashMiddleware:
    """Accepts a slash at the end of every route, without the redirect that loses bodies and keys."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Cut the slash off the path."""
        if scope["type"] == "http":
            # Changed in place, not in a copy: the outer middleware reads the chosen route from the same scope.
            scope["path"] = scope["path"].rstrip("/") or "/"
        await self._app(scope, receive, send)
