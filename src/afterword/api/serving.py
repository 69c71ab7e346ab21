"""What the handlers of one application share."""

from dataclasses import dataclass, field

from fastapi import FastAPI
from starlette.requests import Request
from starlette.types import Scope

from afterword.api.exchange import Recording
from afterword.api.intake import Intake
from afterword.api.lanes import Lanes
from afterword.api.stopping import Stopping
from afterword.completions.filter.verdict import ContentFilter
from afterword.completions.party_counts import PartyCounts
from afterword.config.tree import ServerConfig
from afterword.gateway.interfaces import Gateway
from afterword.registry import Registry


@dataclass(frozen=True, slots=True)
class Serving:
    """Everything that handlers need: models, settings, gateway, counters."""

    registry: Registry
    server: ServerConfig
    content_filter: ContentFilter | None
    """Checks every completion before it is sent; None: there is none."""
    gateway: Gateway
    recording: Recording
    intake: Intake
    lanes: Lanes
    stopping: Stopping
    parties: PartyCounts = field(default_factory=PartyCounts)


def from_here(request: Request, path: str) -> str:
    """A reference to the server's route `path`, without a slash in front, that is relative to the request's own URL.

    docs/rules.md#links
    """
    raw_path: bytes = request.scope["raw_path"]
    depth = raw_path.count(b"/") - 1
    return "../" * depth + path


def serving(request: Request) -> Serving:
    """What the request is served with: what the application served with when it began."""
    return serving_in(request.scope)


def serving_in(scope: Scope) -> Serving:
    """The same, by the request's scope."""
    found = scope["state"]["serving"]
    assert isinstance(found, Serving)
    return found


def serving_of(app: FastAPI) -> Serving:
    """What `app` serves with at present."""
    found = app.state.serving
    assert isinstance(found, Serving)
    return found
