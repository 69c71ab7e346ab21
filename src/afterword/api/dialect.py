"""The differences between the dialects of the endpoint (docs/rules.md#dialects), as values that the routes choose.

All else about a request, its answer and its errors is the same. Knows no route.
"""

from collections.abc import Callable
from dataclasses import dataclass
from operator import attrgetter

from afterword.api.sse import frame
from afterword.registry import Registry, ServedModel


@dataclass(frozen=True, slots=True)
class Dialect:
    """One way to name models and to end a stream."""

    find: Callable[[Registry, str | None], ServedModel]
    """The model a client means; None or a blank name is the default. Raises `ModelNotFound`."""
    name_of: Callable[[ServedModel], str]
    """The name of a model in answers."""
    end: bytes
    """The last event of a successful stream."""


OPENAI = Dialect(find=Registry.get, name_of=attrgetter("name"), end=frame(b"[DONE]"))

# Scale's SDK reads every event without a name as JSON and skips the others, so this end needs a name.
SCALE_GP = Dialect(
    find=Registry.get_qualified, name_of=attrgetter("full_name"), end=b"event: done\n" + frame(b"[DONE]")
)
