"""What the HTTP layer is told at start, and what its handlers share. Reads no environment."""

from dataclasses import dataclass

from fastapi import FastAPI
from starlette.requests import Request

from afterword.api.exchange import OpenExchanges
from afterword.api.intake import IDLE_SECONDS
from afterword.completions.filter.load import load_filter
from afterword.completions.filter.verdict import ContentFilter
from afterword.config import ServerConfig
from afterword.gateway.base import Gateway
from afterword.metrics import RequestMetrics
from afterword.models import Registry

MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class ApiSettings:
    """Settings of one application."""

    max_body_bytes: int = 32 * MIB
    """Cap of a request body in bytes, both as sent and inflated."""
    body_idle_seconds: float = IDLE_SECONDS
    """How long a body may stop coming before the request is refused."""
    strict: bool = False
    """Refuse what the documented API does not know instead of ignoring or extending it (docs/rules.md#strict)."""
    max_logprobs: int = 100
    max_candidates: int = 2048
    """Prompts x best_of of one request, at most."""
    cors_origins: tuple[str, ...] = ("*",)
    """Origins whose pages may call the server; empty: no CORS headers at all."""
    content_filter: ContentFilter | None = None
    """Judges every completion before it is sent; None: all may leave."""


def api_settings(server: ServerConfig) -> ApiSettings:
    """The part of the configuration that the HTTP layer is told, with the content filter loaded.

    Raises `ConfigurationError`.
    """
    return ApiSettings(
        max_body_bytes=server.max_body_bytes,
        strict=server.strict,
        max_logprobs=server.max_logprobs,
        max_candidates=server.max_candidates,
        cors_origins=server.cors_origins,
        content_filter=None if server.content_filter is None else load_filter(server.content_filter),
    )


@dataclass(frozen=True, slots=True)
class Serving:
    """What handlers reach through the application: the models, the settings, the gateway, the counters."""

    registry: Registry
    settings: ApiSettings
    gateway: Gateway
    metrics: RequestMetrics
    exchanges: OpenExchanges


def serving(request: Request) -> Serving:
    """The `Serving` of the application that handles `request`."""
    return serving_of(request.app)


def serving_of(app: FastAPI) -> Serving:
    """The `Serving` stored on `app` by `create_app`."""
    found = app.state.serving
    assert isinstance(found, Serving)
    return found
