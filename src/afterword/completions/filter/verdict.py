"""The interface of content filters. Operators write their own filters against this file alone.

Offsets count code points from the start of the choice's text, which is what the model generated: the echo of a prompt
is the client's own text and is not part of it.
"""

from collections.abc import Awaitable
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Flag:
    """The text from `start` on must not be sent, and the choice ends there.

    What has been sent is not taken back: a `start` within it ends the choice where it is.
    """

    start: int
    rule: str = ""
    """The rule that matched, for the log: a line of a list, a category. Never the text itself."""


@dataclass(frozen=True, slots=True)
class Hold:
    """Nothing is flagged yet, but the text from `start` on may be, depending on what follows. Ignored at the end.

    A `start` before the text holds all of it, one after it nothing.
    """

    start: int


Verdict = Flag | Hold | None
"""None: all of the text may be sent."""


@dataclass(frozen=True, slots=True)
class Context:
    """The request and the choice that the text belongs to."""

    request_id: str
    user: str | None
    """The request's own `user`."""
    model: str
    prompt: str
    """What `echo` would show."""
    prompt_index: int
    candidate: int
    """Number within the prompt, 0-based; without best_of the number of the choice."""


class FilterFunction(Protocol):
    """A filter of the operator's own, named `module:function` in the configuration.

    Called with the whole text of a choice so far each time it has grown, then once more with `final` when it has
    ended. A plain function is called on threads, several at a time; an `async` one on the event loop, which it must
    not block. One choice is judged by one call at a time. Raising anything fails the whole request (500).
    """

    def __call__(self, text: str, final: bool, context: Context, /) -> Verdict | Awaitable[Verdict]:
        """The verdict on `text`."""
        ...


class Watch(Protocol):
    """One choice's text being watched. One reader, on the event loop."""

    __slots__ = ()

    async def push(self, text: str) -> Verdict:
        """The verdict on the text so far; `text` is its new part."""
        ...

    async def flush(self) -> Verdict:
        """The verdict on the whole text, at its end."""
        ...


class ContentFilter(Protocol):
    """The filter of a server; immutable, so that all its requests share it."""

    def watch(self, context: Context) -> Watch:
        """Begin to watch a text."""
        ...
