"""Spans into one llama.cpp call and its logits back, so that a token's numbers never depend on its neighbours.

Two things in llama.cpp depend on how many rows a micro-batch has, and are kept away from reproducible sequences:
a lone row attends by another reduction once its stream is longer than SPLIT_KV cells, and float matrices multiply one
row by another routine than several. Both vanish with a second row, so a lone row is given one: a token after it that
is cut off again before anybody sees it. (ARCHITECTURE, "Exactness"; checked on the running build by `probe.py`.)

The only caller of `LlamaContext`. Engine thread only.
"""

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from afterword.engine.llama.binding import LlamaContext
from afterword.engine.llama.sequence import Span

SPLIT_KV = 256
"""Cells in a stream up to which a lone row is computed like any other (llama.cpp pads to 256, splits from 512)."""


@dataclass(frozen=True, slots=True)
class Computed:
    """What became of a span."""

    span: Span
    logits: NDArray[np.float32]
    """(number of outputs, n_vocab), valid until the next `forward`."""
    exact: bool
    """Computed by the kernels a reproducible request would use."""


class Runner(Protocol):
    """What the scheduler needs of a model; the tests have one without any."""

    def forward(self, spans: Sequence[Span]) -> list[Computed]:
        """Compute spans of distinct sequences; results in the same order."""
        ...

    def copy(self, source: int, target: int, n: int) -> None:
        """Make `target` hold the first n tokens of `source`."""
        ...

    def truncate(self, stream: int, n: int) -> None:
        """Keep the first n tokens of a stream."""
        ...

    def exchange(self, a: int, b: int, n_a: int, n_b: int) -> None:
        """Let two streams that hold n_a and n_b tokens change places."""
        ...


class LlamaRunner:
    """`Runner` on a llama.cpp context."""

    def __init__(self, context: LlamaContext, *, float_weights: bool) -> None:
        self._context = context
        self._float_weights = float_weights
        self._snapshot: tuple[int, ctypes.Array[ctypes.c_uint8]] | None = None

    def forward(self, spans: Sequence[Span]) -> list[Computed]:
        """See `Runner.forward`. Rows go in ascending stream order, as llama.cpp batches best."""
        self._snapshot = None
        ordered = sorted(spans, key=_stream_id)
        padded = {id(span): self._pads(span, lone) for span, lone in _with_loneliness(ordered)}
        rows = _Rows()
        for span in ordered:
            rows.add(span, pad=padded[id(span)] is _PAD)
        if self._float_weights:
            rows.double_lone_outputs()
        logits = self._context.decode(*rows.arrays())
        for span in ordered:
            if padded[id(span)] is _PAD:
                self._context.truncate(_stream_id(span), span.start + span.n)
        return [Computed(span, rows.take(span, logits), padded[id(span)] is not _INEXACT) for span in spans]

    def _pads(self, span: Span, lone: bool) -> str:
        if not lone or (span.start + span.n <= SPLIT_KV and not self._float_weights):
            return _PLAIN
        return _PAD if span.sequence.demand.reproducible else _INEXACT

    def copy(self, source: int, target: int, n: int) -> None:
        """See `Runner.copy`. Several copies from one source in a row take its snapshot once.

        Not llama.cpp's own copy between streams: that moves unused cells too, and only with the next decode, so a
        snapshot in between would still see what was there before.
        """
        if self._snapshot is not None and self._snapshot[0] == target:
            self._snapshot = None
        if self._snapshot is None or self._snapshot[0] != source:
            self._snapshot = (source, self._context.snapshot(source))
        self._context.restore(target, self._snapshot[1])
        self._context.truncate(target, n)

    def truncate(self, stream: int, n: int) -> None:
        """See `Runner.truncate`."""
        if self._snapshot is not None and self._snapshot[0] == stream:
            self._snapshot = None
        if not self._context.truncate(stream, n):
            raise RuntimeError(f"llama.cpp cannot cut stream {stream} to {n} tokens")

    def exchange(self, a: int, b: int, n_a: int, n_b: int) -> None:
        """See `Runner.exchange`."""
        self._snapshot = None
        held = [(stream, self._context.snapshot(stream)) for stream, n in ((a, n_a), (b, n_b)) if n > 0]
        for stream in (a, b):
            self._context.truncate(stream, 0)
        for stream, data in held:
            self._context.restore(b if stream == a else a, data)


_PLAIN, _PAD, _INEXACT = "plain", "pad", "inexact"


def _stream_id(span: Span) -> int:
    assert span.sequence.stream is not None
    return span.sequence.stream.id


def _with_loneliness(ordered: Sequence[Span]) -> list[tuple[Span, bool]]:
    """Each span with whether it will be the only row of a micro-batch.

    llama.cpp batches runs of consecutive stream ids. The scheduler gives all spans of a call the same length, so a
    row is alone exactly if it is one token in a run of one.
    """
    ids = [_stream_id(span) for span in ordered]
    return [
        (span, span.n == 1 and ids[i] - 1 not in ids[i - 1 : i] and ids[i] + 1 not in ids[i + 1 : i + 2])
        for i, span in enumerate(ordered)
    ]


class _Rows:
    """The rows of one call, in the order they are added."""

    def __init__(self) -> None:
        self._tokens: list[NDArray[np.int32]] = []
        self._positions: list[NDArray[np.int32]] = []
        self._streams: list[NDArray[np.int32]] = []
        self._outputs: list[NDArray[np.int8]] = []
        self._wanted: dict[int, NDArray[np.intp]] = {}
        self._place: dict[int, int] = {}

    def add(self, span: Span, *, pad: bool) -> None:
        n = span.n + pad
        tokens = span.sequence.pending_tokens(span.n)
        outputs = span.outputs
        if pad:
            # Any token does; its own row is never read. Both rows are put out so that no output is alone.
            tokens, outputs = np.append(tokens, tokens[-1]), np.append(outputs, np.int8(1))
        self._place[id(span)] = len(self._tokens)
        self._tokens.append(tokens)
        self._positions.append(np.arange(span.start, span.start + n, dtype=np.int32))
        self._streams.append(np.full(n, _stream_id(span), dtype=np.int32))
        self._outputs.append(outputs.copy())
        self._wanted[id(span)] = np.flatnonzero(span.outputs)

    def double_lone_outputs(self) -> None:
        """Give each micro-batch with a single output row a second one."""
        for run in self._runs():
            if sum(int(self._outputs[i].sum()) for i in run) == 1:
                spare = next((outputs for i in run if not (outputs := self._outputs[i]).all()), None)
                if spare is not None:  # none: a lone row that need not be exact
                    spare[np.flatnonzero(spare == 0)[-1]] = 1

    def _runs(self) -> list[list[int]]:
        """Numbers of the spans that share a micro-batch."""
        runs: list[list[int]] = []
        for i, streams in enumerate(self._streams):
            if runs and int(streams[0]) == int(self._streams[i - 1][0]) + 1:
                runs[-1].append(i)
            else:
                runs.append([i])
        return runs

    def arrays(self) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32], NDArray[np.int8]]:
        """(tokens, positions, streams, outputs) of all rows."""
        return (
            np.concatenate(self._tokens, dtype=np.int32),
            np.concatenate(self._positions),
            np.concatenate(self._streams),
            np.concatenate(self._outputs),
        )

    def take(self, span: Span, logits: NDArray[np.float32]) -> NDArray[np.float32]:
        """The rows of `logits` that a span asked for."""
        place = self._place[id(span)]
        before = sum(int(outputs.sum()) for outputs in self._outputs[:place])
        put_out = np.flatnonzero(self._outputs[place])
        if len(put_out) == len(self._wanted[id(span)]):
            return logits[before : before + len(put_out)]
        return logits[before + np.searchsorted(put_out, self._wanted[id(span)])]
