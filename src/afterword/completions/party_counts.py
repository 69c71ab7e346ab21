"""What each party has at each engine, so that no party fills a queue to the last place (docs/rules.md#turns).

On one event loop. Counts what this process has sent to engines; how much those hold they know themselves.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from afterword.completions.completion import Completion
from afterword.engine.base import Engine
from afterword.errors import Overloaded

TO_KEEP_FREE = 4
"""Sequences that a party may have, to one that it must leave room for: alone it gets four fifths of a queue."""


class PartyCounts:
    """Counts the sequences of parties."""

    def __init__(self) -> None:
        self._held: Counter[tuple[int, str]] = Counter()
        """By the engine's identity and the party; none is 0."""

    @contextmanager
    def counted(self, completion: Completion, engine: Engine) -> Iterator[None]:
        """The request's sequences are at the engine inside the context. Raises `Overloaded` on entering."""
        n = sum(request.n_sequences for request in completion.generations)
        key = id(engine), completion.generations[0].claim.party
        self._check(n, self._held[key], engine)
        self._held[key] += n
        try:
            yield
        finally:
            self._held[key] -= n
            if self._held[key] == 0:
                del self._held[key]

    def _check(self, n: int, n_held: int, engine: Engine) -> None:
        engine.check_capacity(n)
        try:
            engine.check_capacity(n + n_held // TO_KEEP_FREE)
        except Overloaded as full:
            raise Overloaded(
                f"This client has {n_held} sequences running or waiting already; with {n} more it would leave too "
                "little room for others. Try again later.",
                retry_after=full.retry_after,
            ) from None
