"""The messages from engine replicas to HTTP replicas. Plain frozen values; knows no Ray.

A generation is a stream of messages: `Accepted` or `Refusal`, then batches of engine events, then nothing more or a
`Refusal` in place of the rest. Errors travel as values: an exception that Ray carries arrives wrapped, and not all of
them survive pickling.
"""

from collections.abc import AsyncGenerator
from dataclasses import dataclass

from afterword.engine.base import Capabilities, Engine, EngineStats
from afterword.engine.engine_refusal import Refusal, refusal
from afterword.engine.events import Event
from afterword.engine.request import GenerationRequest
from afterword.errors import EngineFailed, InvalidRequest, Overloaded


@dataclass(frozen=True, slots=True)
class Facts:
    """What the HTTP side must know of a model whose engine runs elsewhere."""

    capabilities: Capabilities
    fingerprint: str
    created: int
    """Unix seconds."""
    owned_by: str
    vendor: str
    card: dict[str, object]


@dataclass(frozen=True, slots=True)
class Accepted:
    """The engine has queued the request."""

    replica: str
    fingerprint: str


Message = Accepted | Refusal | tuple[Event, ...]


async def messages(engine: Engine, replica: str, request: GenerationRequest) -> AsyncGenerator[Message, None]:
    """A replica's messages for a request. Closing or cancelling it cancels the generation."""
    try:
        async with engine.generate(request) as generation:
            yield Accepted(replica, engine.fingerprint)
            async for event in generation:
                # All events that have come: a message costs Ray about the same however large it is.
                yield (event, *generation.unread())
    except (InvalidRequest, Overloaded, EngineFailed) as error:
        yield refusal(error)


@dataclass(frozen=True, slots=True)
class Report:
    """A replica's figures, as it gives them when asked."""

    replica: str
    stats: EngineStats
    exposition: bytes
    """Its own `/metrics`."""
