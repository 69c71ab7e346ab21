"""Applications over echo engines, and ways to reach them."""

from collections.abc import AsyncIterator, Callable, Iterator
from types import TracebackType
from typing import Any, Self

import httpx
from fastapi import FastAPI

from afterword.api.app import create_app
from afterword.completions.filter.verdict import ContentFilter
from afterword.config.tree import ServerConfig
from afterword.engine.base import Engine, EngineStats, Generation
from afterword.engine.echo import EchoEngine
from afterword.engine.events import Event, Started
from afterword.engine.on_demand import OnDemandEngine
from afterword.engine.request import GenerationRequest
from afterword.gateway.interfaces import Gateway
from afterword.gateway.opening import OPEN, single_key_gateway
from afterword.registry import Registry, ServedModel

CREATED = 1700000000


def registry(*engines: Engine) -> Registry:
    """Models `echo` (also called `default`), `vendor/second`, ... over `engines`, one echo engine if none is given."""
    names = ("echo", "vendor/second")
    models = [
        ServedModel(
            name,
            engine,
            CREATED,
            aliases=("default",) if name == "echo" else (),
            on_demand=engine if isinstance(engine, OnDemandEngine) else None,
        )
        for name, engine in zip(names, engines or (EchoEngine(),), strict=False)
    ]
    return Registry(models)


def app_of(
    *engines: Engine,
    api_key: str | None = None,
    gateway: Gateway | None = None,
    content_filter: ContentFilter | None = None,
    **settings: Any,
) -> FastAPI:
    """An application over `engines` with `settings`, the fields of `ServerConfig.

    It is behind `gateway`; without one it wants `api_key`, or is open if there is none either.
    """
    if gateway is None:
        gateway = OPEN if api_key is None else single_key_gateway(api_key)
    return create_app(registry(*engines), ServerConfig(**settings), gateway, content_filter)


def client_of(app: FastAPI, **headers: str) -> httpx.AsyncClient:
    """A client that calls the application in process."""
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost", headers=headers)


def assert_error(response: httpx.Response, status: int, param: str | None, code: str | None) -> dict[str, Any]:
    """Check the shape of an error answer and what it says; gives back the error object."""
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/json"
    body = response.json()
    assert list(body) == ["error"]
    error: dict[str, Any] = body["error"]
    assert list(error) == ["message", "type", "param", "code"]
    assert error["type"] == ("server_error" if status >= 500 else "invalid_request_error")
    assert (error["param"], error["code"]) == (param, code)
    assert len(error["message"]) > 10
    return error


def full_engine() -> EchoEngine:
    """An echo engine that holds as much as it may, for good: every request is one too many."""
    engine = EchoEngine(n_slots=1, max_waiting=1)
    engine._tracker.capacity.acquire(2)
    return engine


class BreakingEngine(EchoEngine):
    """An echo engine that raises `error` in place of event number `after` of each generation, behind `Started`."""

    def __init__(self, error: Exception, after: int, *, state: str = "ready") -> None:
        super().__init__()
        self._error = error
        self._after = after
        self._state = state

    def generate(self, request: GenerationRequest) -> Generation:
        return _Breaking(super().generate(request), self._error, self._after)

    def stats(self) -> EngineStats:
        return EngineStats(state=self._state)


class _Breaking:
    def __init__(self, inner: Generation, error: Exception, after: int) -> None:
        self._inner = inner
        self._error = error
        self._after = after

    async def __aenter__(self) -> Self:
        await self._inner.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._inner.__aexit__(kind, error, trace)

    def end(self, index: int) -> None:
        self._inner.end(index)

    def unread(self) -> Iterator[Event]:
        # What comes behind the break was never said.
        return iter(())

    async def __aiter__(self) -> AsyncIterator[Event]:
        n_given = 0
        async for event in self._inner:
            if isinstance(event, Started):
                yield event
                continue
            if n_given == self._after:
                raise self._error
            n_given += 1
            yield event
        raise self._error


def wait_until(url: str, happened: Callable[[], bool]) -> None:
    """Return once `happened`, asking the server at `url` in between so that it gets its turns.

    A wait in vain is ended by the suite's timeout.
    """
    with httpx.Client(base_url=url) as client:
        while not happened():
            client.get("/health")


def is_idle(engine: Engine) -> bool:
    """Whether nothing runs or waits on `engine`."""
    stats = engine.stats()
    return stats.running + stats.waiting == 0
