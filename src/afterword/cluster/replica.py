"""One engine on some node, behind a Ray Serve deployment. Knows no HTTP."""

from collections.abc import AsyncIterator
from contextlib import aclosing

from ray import serve

from afterword.cluster.messages import Facts, Message, Report, messages
from afterword.config.tree import Config
from afterword.config.vendor import LOCAL
from afterword.engine.request import GenerationRequest
from afterword.loading.load_registry import load_registry
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
        served.engine.start()
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
        async with aclosing(messages(self._served.engine, self._id, request)) as said:
            async for message in said:
                yield message

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
