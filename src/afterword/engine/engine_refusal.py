"""Why an engine in another process refuses or fails a prompt, as a value.

An exception of its own would not survive every way between processes.
"""

from dataclasses import dataclass
from typing import Literal

from afterword.errors import AfterwordError, EngineFailed, InvalidRequest, NeverFits, Overloaded


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


def refusal(error: AfterwordError) -> Refusal:
    """`error` as a message."""
    match error:
        case InvalidRequest():
            return Refusal("invalid", str(error), error.param, error.code)
        case NeverFits():
            return Refusal("invalid", str(error), "prompt", "array_above_max_length")
        case Overloaded():
            return Refusal("overloaded", str(error), retry_after=error.retry_after)
        case _:
            return Refusal("failed", str(error))
