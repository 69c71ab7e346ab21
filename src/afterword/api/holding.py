"""Has the model of a request loaded, and kept until the request has ended (docs/rules.md#many-models)."""

import asyncio

from starlette.requests import Request

from afterword.api.disconnect import unless_client_leaves
from afterword.api.exchange import exchange_of
from afterword.api.serving import serving
from afterword.api.timeout import deadline_for
from afterword.engine.on_demand import OnDemandEngine
from afterword.errors import DeadlineExceeded
from afterword.registry import ServedModel


async def hold(request: Request, served: ServedModel) -> None:
    """Wait until the model is loaded, if it is not, but for no longer than the request may take.

    Its body must have been read. Raises `ClientLeft`, `DeadlineExceeded`, and what `OnDemandEngine.wait_and_hold` does.
    """
    engine = served.on_demand
    if engine is None:
        return
    exchange = exchange_of(request.scope)
    if not engine.hold():
        deadline = deadline_for(exchange, request.headers, serving(request).server.request_timeout)
        await unless_client_leaves(_loaded(engine, deadline), request.receive)
    exchange.holds = engine


async def _loaded(engine: OnDemandEngine, deadline: float | None) -> None:
    try:
        async with asyncio.timeout_at(deadline):
            await engine.wait_and_hold()
    except TimeoutError:
        raise DeadlineExceeded from None
