import ctypes
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import cast

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.engine.llama.desk import Desk, ask, words

from afterword.engine.llama.binding import LlamaContext
from afterword.engine.llama.kv import Stream
from afterword.engine.llama.runner import LlamaRunner
from afterword.engine.llama.sequence import Span

PROMPT = words(1200)


@dataclass(slots=True)
class FakeContext:
    """Writes down what it is asked; the logits of a row are its (stream, position)."""

    n_ctx_stream: int = 1000
    can_cut: bool = True
    log: list[tuple[object, ...]] = field(default_factory=list)
    rows: list[tuple[int, int, int]] = field(default_factory=list)
    """(stream, position, token) of the latest call."""
    outputs: list[int] = field(default_factory=list)

    def decode(
        self,
        tokens: NDArray[np.int32],
        positions: NDArray[np.int32],
        streams: NDArray[np.int32],
        outputs: NDArray[np.int8],
    ) -> NDArray[np.float32]:
        assert [each.dtype for each in (tokens, positions, streams, outputs)] == [np.int32] * 3 + [np.int8]
        self.log.append(("decode", len(tokens)))
        self.rows = list(zip(streams.tolist(), positions.tolist(), tokens.tolist(), strict=True))
        self.outputs = outputs.tolist()
        logits: NDArray[np.float32] = np.stack([streams, positions], axis=1)[outputs == 1].astype(np.float32)
        return logits

    def truncate(self, stream: int, n: int) -> bool:
        self.log.append(("truncate", stream, n))
        return self.can_cut

    def snapshot(self, stream: int) -> "ctypes.Array[ctypes.c_uint8]":
        self.log.append(("snapshot", stream))
        return (ctypes.c_uint8 * 1)(stream)

    def restore(self, stream: int, data: "ctypes.Array[ctypes.c_uint8]") -> None:
        self.log.append(("restore", stream, data[0]))


class Bench:
    """A runner over a fake context."""

    def __init__(self, *, float_weights: bool = False, can_cut: bool = True) -> None:
        self.context = FakeContext(can_cut=can_cut)
        self.runner = LlamaRunner(cast(LlamaContext, self.context), float_weights=float_weights)

    def forward(self, *spans: Span) -> list[tuple[list[list[float]], bool]]:
        """(logits, exact) of each span."""
        computed = self.runner.forward(spans)
        assert [each.span for each in computed] == list(spans)
        return [(each.logits.tolist(), each.exact) for each in computed]


def span(stream: int, start: int, n: int = 1, *, wanted: tuple[int, ...] = (-1,), reproducible: bool = True) -> Span:
    """A piece of `PROMPT` on a stream; `wanted` are the rows in it whose logits are needed."""
    group, _ = Desk(1).add(ask(PROMPT, reproducible=reproducible))
    (sequence,) = group.sequences
    sequence.stream, sequence.n_computed = Stream(stream, np.zeros(0, dtype=np.int32)), start
    outputs = np.zeros(n, dtype=np.int8)
    outputs[list(wanted)] = 1
    return Span(sequence, start, n, outputs)


def test_rows_go_in_ascending_stream_order_and_come_back_in_the_order_asked() -> None:
    bench = Bench()
    assert bench.forward(span(3, 100, 2), span(1, 7, 2), span(2, 50, 2)) == [
        ([[3, 101]], True),
        ([[1, 8]], True),
        ([[2, 51]], True),
    ]
    assert [(stream, position) for stream, position, _ in bench.context.rows] == [
        (1, 7),
        (1, 8),
        (2, 50),
        (2, 51),
        (3, 100),
        (3, 101),
    ]
    assert [token for _, _, token in bench.context.rows] == [
        *PROMPT[7:9],
        *PROMPT[50:52],
        *PROMPT[100:102],
    ]


@pytest.mark.parametrize(
    ("asked", "wanted"),
    [
        pytest.param((), [], id="none"),
        pytest.param((0, 1, 2), [[4, 10], [4, 11], [4, 12]], id="all"),
        pytest.param((0, 2), [[4, 10], [4, 12]], id="some"),
    ],
)
def test_each_span_gets_the_rows_it_asked_for(asked: tuple[int, ...], wanted: list[list[float]]) -> None:
    first, middle, last = Bench().forward(span(2, 30, 3, wanted=(0, 1)), span(4, 10, 3, wanted=asked), span(5, 0, 3))
    assert (first[0], middle[0], last[0]) == ([[2, 30], [2, 31]], wanted, [[5, 2]])


@pytest.mark.parametrize(
    ("spans", "float_weights", "n_rows", "exact"),
    [
        pytest.param([span(0, 255)], False, 1, [True], id="lone-row-in-a-short-stream"),
        pytest.param([span(0, 256)], False, 2, [True], id="lone-row-in-a-long-stream"),
        pytest.param([span(0, 256, reproducible=False)], False, 1, [False], id="lone-row-that-need-not-be-exact"),
        pytest.param([span(0, 255, reproducible=False)], False, 1, [True], id="lone-row-that-is-exact-anyway"),
        pytest.param([span(0, 900, 2)], False, 2, [True], id="two-rows"),
        pytest.param([span(0, 900), span(1, 5)], False, 2, [True, True], id="neighbour-behind"),
        pytest.param([span(4, 900), span(3, 900)], False, 2, [True, True], id="neighbour-in-front"),
        pytest.param([span(0, 900), span(2, 900)], False, 4, [True, True], id="gap"),
        pytest.param([span(0, 900), span(2, 5)], False, 3, [True, True], id="gap-and-one-short-stream"),
        pytest.param([span(0, 900), span(2, 900), span(3, 900)], False, 4, [True] * 3, id="one-of-three-alone"),
        pytest.param([span(0, 5)], True, 2, [True], id="float-weights"),
        pytest.param([span(0, 5, reproducible=False)], True, 1, [False], id="float-weights-that-need-not-be-exact"),
        pytest.param([span(0, 5), span(1, 5)], True, 2, [True, True], id="float-weights-with-a-neighbour"),
    ],
)
def test_only_lone_rows_that_must_be_exact_are_padded(
    spans: list[Span], float_weights: bool, n_rows: int, exact: list[bool]
) -> None:
    bench = Bench(float_weights=float_weights)
    assert [each for _, each in bench.forward(*spans)] == exact
    assert len(bench.context.rows) == n_rows


def test_padding_is_cut_off_again_and_never_read() -> None:
    bench = Bench()
    assert bench.forward(span(6, 700), span(2, 400), span(4, 10)) == [
        ([[6, 700]], True),
        ([[2, 400]], True),
        ([[4, 10]], True),
    ]
    assert [(stream, position) for stream, position, _ in bench.context.rows] == [
        (2, 400),
        (2, 401),
        (4, 10),
        (6, 700),
        (6, 701),
    ]
    assert bench.context.outputs == [1, 1, 1, 1, 1]
    assert bench.context.log == [("decode", 5), ("truncate", 2, 401), ("truncate", 6, 701)]


def test_padded_row_without_outputs_gives_none() -> None:
    assert Bench().forward(span(0, 700, wanted=())) == [([], True)]


@pytest.mark.parametrize(
    ("spans", "outputs"),
    [
        pytest.param([span(0, 10, 3)], [0, 1, 1], id="the-row-before-the-last"),
        pytest.param([span(0, 10, 3, wanted=(0, 2))], [1, 0, 1], id="two-are-wanted-anyway"),
        pytest.param([span(0, 10, 3, wanted=())], [0, 0, 0], id="none-is-wanted"),
        pytest.param([span(0, 10, 2), span(1, 10, 2)], [0, 1, 0, 1], id="neighbours-with-one-each"),
        pytest.param([span(0, 10, 2, wanted=()), span(1, 10, 2)], [0, 1, 0, 1], id="a-neighbour-without"),
        pytest.param([span(0, 10, 2), span(2, 10, 2)], [1, 1, 1, 1], id="each-run-by-itself"),
        pytest.param([span(0, 10, 1, reproducible=False)], [1], id="lone-row-that-need-not-be-exact"),
    ],
)
def test_float_weights_never_put_out_a_single_row(spans: list[Span], outputs: list[int]) -> None:
    bench = Bench(float_weights=True)
    results = bench.forward(*spans)
    assert bench.context.outputs == outputs
    for each, (logits, _) in zip(spans, results, strict=True):
        assert each.sequence.stream is not None
        wanted = np.flatnonzero(each.outputs) + each.start
        assert logits == [[each.sequence.stream.id, position] for position in wanted]


def test_quantised_weights_put_out_what_is_wanted() -> None:
    bench = Bench()
    bench.forward(span(0, 10, 3))
    assert bench.context.outputs == [0, 0, 1]


def test_copies_from_one_source_take_its_snapshot_once() -> None:
    bench = Bench()
    for target in (1, 2, 3):
        bench.runner.copy(0, target, 100 + target)
    assert bench.context.log == [
        ("snapshot", 0),
        ("restore", 1, 0),
        ("truncate", 1, 101),
        ("restore", 2, 0),
        ("truncate", 2, 102),
        ("restore", 3, 0),
        ("truncate", 3, 103),
    ]


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda bench: bench.runner.truncate(0, 50), id="cut"),
        pytest.param(lambda bench: bench.runner.exchange(0, 4, 10, 10), id="exchanged"),
        pytest.param(lambda bench: bench.runner.copy(3, 0, 100), id="overwritten"),
        pytest.param(lambda bench: bench.forward(span(5, 0, 2)), id="computed"),
    ],
)
def test_snapshot_is_taken_again_once_its_stream_may_have_changed(change: Callable[[Bench], object]) -> None:
    bench = Bench()
    bench.runner.copy(0, 1, 100)
    change(bench)
    bench.context.log.clear()
    bench.runner.copy(0, 2, 100)
    assert ("snapshot", 0) in bench.context.log


def test_exchange_restores_each_stream_in_the_other_s_place() -> None:
    bench = Bench()
    bench.runner.exchange(2, 5, 10, 20)
    assert bench.context.log[:2] == [("snapshot", 2), ("snapshot", 5)]
    assert bench.context.log[-2:] == [("restore", 5, 2), ("restore", 2, 5)]


def test_exchange_with_an_empty_stream_is_a_move() -> None:
    bench = Bench()
    bench.runner.exchange(2, 1, 10, 0)
    assert bench.context.log == [("snapshot", 2), ("truncate", 2, 0), ("truncate", 1, 0), ("restore", 1, 2)]


def test_memory_that_refuses_to_be_cut_is_an_error() -> None:
    with pytest.raises(RuntimeError, match="stream 3 to 7"):
        Bench(can_cut=False).runner.truncate(3, 7)
