"""One engine on some node, behind a Ray Serve deployment. Knows no HTTP."""

import asyncio
from collections.abc import AsyncIterator

from ray import serve

from afterword.cluster.messages import Accepted, Facts, Message, Report, refusal
from afterword.config.tree import Config
from afterword.config.vendor import LOCAL
from afterword.engine.base import Generation
from afterword.engine.events import Event
from afterword.engine.request import GenerationRequest
from afterword.errors import EngineFailed, InvalidRequest, Overloaded
from afterword.loading.registry import load_registry
from afterword.metrics import Metrics


class EngineReplica:
    """The deployment's class. Its coroutines run on the replica's own event loop."""

    def __init__(self, config: Config, number: int) -> None:
        """Load model `number` of the configuration, which takes seconds to minutes. Raises `ConfigurationError`.

        Vendors that have it too are for the HTTP replicas to ask.
        """
        model = config.models[number].model_copy(update={"vendors": (LOCAL,)})
        self._served = load_registry(config.model_copy(update={"models": (model,)})).all()[0]
        self._metrics = Metrics([self._served])
        self._id: str = serve.get_replica_context().replica_id.unique_id

    async def describe(self) -> Facts:
        """What HTTP replicas must know of the model."""
        served = self._served
        return Facts(
            capabilities=served.engine.capabilities,
            fingerprint=served.engine.fingerprint,
            created=served.created,
            owned_by=served.owned_by,
            vendor=served.vendor,
            card=served.card,
        )

    async def generate(self, request: GenerationRequest) -> AsyncIterator[Message]:
        """Run the request; see `messages.py` for the stream. Closing or cancelling it cancels the generation."""
        engine = self._served.engine
        try:
            async with engine.generate(request) as generation:
                yield Accepted(self._id, engine.fingerprint)
                async for batch in _batches(generation):
                    yield batch
        except (InvalidRequest, Overloaded, EngineFailed) as error:
            yield refusal(error)

    async def report(self) -> Report:
        """The figures of the moment."""
        return Report(self._id, self._served.engine.stats(), self._metrics.render())

    async def check_health(self) -> None:
        """Called by Ray Serve every few seconds: a replica that raises is replaced."""
        state = self._served.engine.stats().state
        if state == "failed":
            raise RuntimeError(f"the engine of {self._served.full_name} has failed")

    async def __del__(self) -> None:
        """Called by Ray Serve once the replica's last request has ended."""
        await self._served.engine.aclose()


async def _batches(generation: Generation) -> AsyncIterator[tuple[Event, ...]]:
    """The events, all that are there at once: a message costs Ray about as much however much is in it."""
    arrived: list[Event] = []
    wake = asyncio.Event()

    async def read() -> None:
        async for event in generation:
            arrived.append(event)
            wake.set()

    reader = asyncio.create_task(read())
    reader.add_done_callback(lambda _: wake.set())
    try:
        while arrived or not reader.done():
            if arrived:
                batch = tuple(arrived)
                arrived.clear()
                yield batch
            else:
                await wake.wait()
                wake.clear()
        reader.result()
    finally:
        reader.cancel()
        await asyncio.gather(reader, return_exceptions=True)
