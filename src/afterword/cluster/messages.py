"""The messages from engine replicas to HTTP replicas. Plain frozen values; knows no Ray.

A generation is a stream of messages: `Accepted` or `Refusal`, then batches of engine events, then nothing more or a
`Refusal` in place of the rest. Errors travel as values: an exception that Ray carries arrives wrapped, and not all of
them survive pickling.
"""

from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Literal

from afterword.engine.base import Capabilities, Engine, EngineStats
from afterword.engine.events import Event
from afterword.engine.request import GenerationRequest
from afterword.errors import EngineFailed, InvalidRequest, NeverFits, Overloaded


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


@dataclass(frozen=True, slots=True)
class Refusal:
    """The engine cannot do it, or no longer."""

    kind: Literal["invalid", "overloaded", "failed"]
    message: str
    param: str | None = None
    code: str | None = None
    retry_after: int = 1

    def error(self) -> InvalidRequest | Overloaded | EngineFailed:
        """The exception that the engine raised where it runs."""
        match self.kind:
            case "invalid":
                return InvalidRequest(self.message, param=self.param, code=self.code)
            case "overloaded":
                return Overloaded(self.message, retry_after=self.retry_after)
            case "failed":
                return EngineFailed(self.message)


def refusal(error: InvalidRequest | Overloaded | EngineFailed) -> Refusal:
    """`error` as a message."""
    match error:
        case InvalidRequest():
            return Refusal("invalid", str(error), error.param, error.code)
        case NeverFits():
            return Refusal("invalid", str(error), "prompt", "array_above_max_length")
        case Overloaded():
            return Refusal("overloaded", str(error), retry_after=error.retry_after)
        case EngineFailed():
            return Refusal("failed", str(error))


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
