"""A model's replicas without Ray: engines of this process, asked the way that Ray asks them elsewhere."""

import asyncio
import itertools
from collections.abc import Sequence

from afterword.cluster.cluster_engine import ClusterEngine
from afterword.cluster.messages import Facts, Message, Report, messages
from afterword.engine.base import Engine
from afterword.engine.request import GenerationRequest


class LocalReplicas:
    """`Replicas` that take turns."""

    def __init__(self, engines: Sequence[Engine]) -> None:
        self.engines = engines
        self._turns = itertools.cycle(enumerate(engines))

    def ask(self, request: GenerationRequest) -> "LocalAnswer":
        number, engine = next(self._turns)
        return LocalAnswer(engine, str(number), request)

    async def reports(self) -> tuple[Report, ...]:
        return tuple(Report(str(number), engine.stats(), b"") for number, engine in enumerate(self.engines))


class LocalAnswer:
    """A `ReplicaAnswer` that comes as Ray's do: the replica says all it has, whether somebody listens or not."""

    def __init__(self, engine: Engine, replica: str, request: GenerationRequest) -> None:
        self._messages: asyncio.Queue[Message | None] = asyncio.Queue()
        self._saying = asyncio.create_task(self._say(engine, replica, request))

    async def __anext__(self) -> Message:
        message = await self._messages.get()
        if message is None:
            raise StopAsyncIteration
        return message

    def cancel(self) -> None:
        self._saying.cancel()

    async def _say(self, engine: Engine, replica: str, request: GenerationRequest) -> None:
        async for message in messages(engine, replica, request):
            self._messages.put_nowait(message)
        self._messages.put_nowait(None)


def cluster_engine(replicas: LocalReplicas) -> ClusterEngine:
    """The engine that an HTTP replica has over them."""
    first = replicas.engines[0]
    facts = Facts(first.capabilities, first.fingerprint, created=0, owned_by="", vendor="", card={})
    return ClusterEngine(replicas, facts, first.tokenizer)
