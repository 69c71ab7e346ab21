"""The protocol of what answers a command's completion requests: a model in this process, or a server."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class Ending:
    """How a streamed choice ended."""

    finish_reason: str
    prompt_tokens: int
    completion_tokens: int


class Backend(Protocol):
    """Answers completion requests, given as the JSON bodies of the API. Errors are `AfterwordError`s."""

    async def stream(self, request: dict[str, Any], write: Callable[[str], object]) -> Ending:
        """Complete with one choice, calling `write` with its text as it grows."""
        ...

    async def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """Complete and return the whole body of the API's answer."""
        ...

    async def score(self, request: dict[str, Any]) -> dict[str, Any]:
        """Score and return the whole body of the answer of `/v1/score`."""
        ...

    async def aclose(self) -> None:
        """Close the model or the connection."""
        ...
