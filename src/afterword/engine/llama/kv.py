"""What each KV stream holds, and which of it a new prompt can reuse.

Bookkeeping only: no model, no threads. The scheduler tells it what was computed and carries out the copies it asks for.

    |──── computed as a prompt (company.py) ────|──── sampled, or after something sampled ────|
    0                                        n_exact                                           n

A stream is `running` (a sequence holds it) or not; one that is not keeps its tokens as prefix cache until
its place is needed.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

KEEP = 64
"""Tokens beyond a common prefix that make a stream worth keeping: reuse copies it instead of cutting it."""

WORTH_COPYING = 32
"""Shorter prefixes are computed again: cheaper than a copy."""


@dataclass(frozen=True, slots=True)
class ScoreRow:
    """What the model said at one prompt position about the token after it."""

    follower: int
    logprob: float
    ids: NDArray[np.int32]
    """(k,) likeliest tokens."""
    logprobs: NDArray[np.float64]
    """(k,) their log-probabilities."""


@dataclass(slots=True)
class Stream:
    """One KV stream. `n` tokens are resident."""

    id: int
    tokens: NDArray[np.int32]
    n: int = 0
    n_exact: int = 0
    """Leading tokens that any prompt could have left here: what a reproducible request may reuse."""
    running: bool = False
    used_at: int = 0
    rows: list[ScoreRow | None] = field(default_factory=list)
    """One a resident token, None where nobody asked for its score."""

    def cut(self, n: int) -> None:
        """Forget all but the first n tokens."""
        assert n <= self.n
        self.n = n
        self.n_exact = min(self.n_exact, n)
        del self.rows[n:]


@dataclass(frozen=True, slots=True)
class Demand:
    """What a sequence asks of the cache."""

    prompt: NDArray[np.int32]
    """(P,) token ids."""
    reproducible: bool
    score_top: int | None
    """k of the prompt's score rows; None if the prompt is not scored."""


@dataclass(frozen=True, slots=True)
class Reuse:
    """A prefix of `n` tokens of `stream`."""

    stream: Stream
    n: int


@dataclass(frozen=True, slots=True)
class Placement:
    """Where a sequence will run and what is already there."""

    stream: Stream
    n_reused: int
    copy_from: Stream | None
    """Its first `n_reused` tokens must be copied to `stream` first; None: they are in place."""


class KVStreams:
    """All streams of one context. Engine thread only."""

    def __init__(self, n_streams: int, capacity: int, *, can_cut: bool = True) -> None:
        self._streams = [Stream(i, np.zeros(capacity, dtype=np.int32)) for i in range(n_streams)]
        self.capacity = capacity
        """Tokens a stream can hold."""
        self.can_cut = can_cut
        """Whether a stream can lose its end."""
        self._clock = 0

    def __iter__(self) -> Iterator[Stream]:
        return iter(self._streams)

    def stream(self, stream_id: int) -> Stream:
        """The stream of that id."""
        return self._streams[stream_id]

    @property
    def n_running(self) -> int:
        """Streams that a sequence holds."""
        return sum(s.running for s in self._streams)

    @property
    def n_idle(self) -> int:
        """Streams nobody holds whose tokens are kept."""
        return sum(not s.running and s.n > 0 for s in self._streams)

    @property
    def n_free(self) -> int:
        """Streams nobody holds, kept tokens or not."""
        return sum(not s.running for s in self._streams)

    def best_reuse(self, demand: Demand) -> Reuse | None:
        """The resident prefix that saves the demand most; None if there is none. Of equals, one in its place."""
        found = [Reuse(stream, self._n_usable(stream, demand)) for stream in self._streams if stream.n > 0]
        best = max(found, key=self._worth, default=None)
        return None if best is None or best.n == 0 else best

    def _worth(self, reuse: Reuse) -> tuple[int, bool, int]:
        """Sorts reuses by what they save: nothing, if one is neither in its place nor worth a copy."""
        in_place = self._in_place(reuse)
        return reuse.n if in_place or reuse.n >= WORTH_COPYING else 0, in_place, reuse.n

    def _n_usable(self, stream: Stream, demand: Demand) -> int:
        """How much of a stream a demand can use. Its last token is always computed: its logits are needed."""
        n = min(common_prefix(stream.tokens[: stream.n], demand.prompt), len(demand.prompt) - 1)
        if demand.reproducible:
            n = min(n, stream.n_exact)
        if demand.score_top is not None:
            n = _first_missing_row(stream, demand, n)
        return n if self.can_cut or n == stream.n else 0

    def place(self, reuse: Reuse | None) -> Placement | None:
        """Choose a stream for a prompt of which `reuse` is there already; None if every stream is running.

        The caller copies if `copy_from` is set, then calls `open` with the placement.
        """
        if reuse is not None and self._in_place(reuse):
            return Placement(reuse.stream, reuse.n, None)
        target = self._victim(None if reuse is None else reuse.stream)
        if target is None:
            return None
        if reuse is None or (reuse.stream is not target and reuse.n < WORTH_COPYING):
            return Placement(target, 0, None)
        source = None if reuse.stream is target else reuse.stream
        return Placement(target, reuse.n, source)

    def _in_place(self, reuse: Reuse) -> bool:
        """Whether nobody holds the stream and cutting it loses little."""
        return not reuse.stream.running and reuse.stream.n - reuse.n <= KEEP

    def _victim(self, source: Stream | None) -> Stream | None:
        """The stream to overwrite: the lowest empty one, else the least recently used, the source last."""
        idle = [s for s in self._streams if not s.running]
        if not idle:
            return None
        return min(idle, key=lambda s: (s.n > 0, s is source, s.used_at, s.id))

    def open(self, placement: Placement) -> None:
        """Make the placement true in the books: the stream holds the reused prefix and runs."""
        stream, source = placement.stream, placement.copy_from
        assert not stream.running
        if source is not None:
            self._touch(source)
            n = placement.n_reused
            stream.tokens[:n] = source.tokens[:n]
            stream.n, stream.n_exact = n, min(source.n_exact, n)
            stream.rows = source.rows[:n]
        else:
            stream.cut(placement.n_reused)
        stream.running = True
        self._touch(stream)

    def append(self, stream: Stream, tokens: Sequence[int] | NDArray[np.int32], *, exact: bool) -> None:
        """Tokens were computed at the end of a running stream; `exact`: as a prompt, not sampled."""
        n = len(tokens)
        assert stream.running
        assert stream.n + n <= self.capacity
        stream.tokens[stream.n : stream.n + n] = tokens
        if exact and stream.n_exact == stream.n:
            stream.n_exact += n
        stream.n += n
        stream.rows.extend([None] * n)

    def close(self, stream: Stream) -> None:
        """The sequence has left; its tokens stay as prefix cache."""
        assert stream.running
        stream.running = False
        self._touch(stream)

    def exchange(self, a: Stream, b: Stream) -> None:
        """The contents of two streams have changed places (a gap was closed)."""
        for name in ("tokens", "n", "n_exact", "running", "used_at", "rows"):
            value = getattr(a, name)
            setattr(a, name, getattr(b, name))
            setattr(b, name, value)

    def forget(self) -> None:
        """Drop every idle stream's tokens."""
        for stream in self._streams:
            if not stream.running:
                stream.cut(0)

    def _touch(self, stream: Stream) -> None:
        self._clock += 1
        stream.used_at = self._clock

    def check_invariants(self) -> None:
        """Assert what must hold between operations; the tests call it after each."""
        for stream in self._streams:
            assert 0 <= stream.n <= self.capacity
            assert 0 <= stream.n_exact <= stream.n
            assert len(stream.rows) == stream.n


def common_prefix(a: NDArray[np.int32], b: NDArray[np.int32]) -> int:
    """How many tokens two runs share from their start."""
    n = min(len(a), len(b))
    differs = a[:n] != b[:n]
    first = int(differs.argmax()) if n else 0
    return first if n and differs[first] else n


def _first_missing_row(stream: Stream, demand: Demand, n: int) -> int:
    """First position before n whose score row is unknown, too narrow or about another follower; n if none."""
    assert demand.score_top is not None
    for i, row in enumerate(stream.rows[:n]):
        if row is None or len(row.ids) < demand.score_top or row.follower != demand.prompt[i + 1]:
            return i
    return n
