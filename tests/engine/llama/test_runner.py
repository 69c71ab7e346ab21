from collections.abc import Callable
from dataclasses import dataclass, field
from typing import cast

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.engine.llama.harness import Harness, ask, words

from afterword.engine.llama.arithmetic import FLOATS, INDEPENDENT, QUANTISED, Arithmetic
from afterword.engine.llama.binding import LlamaContext
from afterword.engine.llama.kv import Slot
from afterword.engine.llama.runner import LlamaRunner
from afterword.engine.llama.sequence import Span
from afterword.engine.llama.thread_count import ThreadCount

PROMPT = words(1200)


@dataclass(slots=True)
class FakeContext:
    """Writes down what it is asked; the logits of a row are its (slot, position)."""

    can_cut: bool = True
    lengths: dict[int, int] = field(default_factory=dict)
    """Tokens of slots that hold any."""
    too_long: frozenset[int] = frozenset()
    """Slots of which a snapshot would not have all."""
    log: list[tuple[object, ...]] = field(default_factory=list)
    rows: list[tuple[int, int, int]] = field(default_factory=list)
    """(slot, position, token) of the latest call."""
    outputs: list[int] = field(default_factory=list)

    def decode(
        self, tokens: list[int], positions: list[int], slots: list[int], outputs: list[int]
    ) -> NDArray[np.float32]:
        assert set(outputs) <= {0, 1}
        self.log.append(("decode", len(tokens)))
        self.rows = list(zip(slots, positions, tokens, strict=True))
        self.outputs = outputs
        put_out = zip(slots, positions, outputs, strict=True)
        return np.array([(slot, position) for slot, position, output in put_out if output], dtype=np.float32)

    def length(self, slot: int) -> int:
        return self.lengths.get(slot, 0)

    def truncate(self, slot: int, n: int) -> bool:
        self.log.append(("truncate", slot, n))
        return self.can_cut

    def can_be_saved(self, slot: int) -> bool:
        return slot not in self.too_long

    def duplicate(self, source: int, target: int) -> None:
        self.log.append(("duplicate", source, target))

    def snapshot(self, slot: int) -> NDArray[np.uint8]:
        self.log.append(("snapshot", slot))
        return np.array([slot], dtype=np.uint8)

    def restore(self, slot: int, data: NDArray[np.uint8]) -> None:
        self.log.append(("restore", slot, data[0]))

    def state(self, slot: int) -> NDArray[np.uint8]:
        return np.array([slot, self.length(slot)], dtype=np.uint8)

    def restore_state(self, slot: int, data: NDArray[np.uint8]) -> None:
        self.log.append(("restore-state", slot, *data.tolist()))


class Bench:
    """A runner over a fake context."""

    def __init__(self, arithmetic: Arithmetic = QUANTISED, *, can_cut: bool = True) -> None:
        self.context = FakeContext(can_cut=can_cut)
        self.runner = LlamaRunner(cast(LlamaContext, self.context), arithmetic, ThreadCount(1))

    def forward(self, *spans: Span) -> list[list[list[float]]]:
        """The logits of each span."""
        computed = self.runner.forward(spans)
        assert [each.span for each in computed] == list(spans)
        return [each.logits.tolist() for each in computed]

    @property
    def places(self) -> list[tuple[int, int]]:
        """(slot, position) of each row of the latest call."""
        return [(slot, position) for slot, position, _ in self.context.rows]

    @property
    def cuts(self) -> list[tuple[int, int]]:
        """(slot, tokens that stay) of everything that was cut."""
        return [(int(str(entry[1])), int(str(entry[2]))) for entry in self.context.log if entry[0] == "truncate"]


def span(slot: int, start: int, n: int = 1, *, wanted: tuple[int, ...] = (-1,)) -> Span:
    """A piece of `PROMPT` on a slot; `wanted` are the rows in it whose logits are needed."""
    group, _ = Harness(1).add(ask(PROMPT))
    (sequence,) = group.sequences
    sequence.slot, sequence.n_computed = Slot(slot, np.zeros(0, dtype=np.int32)), start
    outputs = np.zeros(n, dtype=np.int8)
    outputs[list(wanted)] = 1
    return Span(sequence, start, n, outputs)


def sampled(slot: int, start: int) -> Span:
    """The next token of a sequence that has sampled it behind `start` others."""
    group, _ = Harness(1).add(ask(PROMPT[:start]))
    (sequence,) = group.sequences
    sequence.slot, sequence.n_computed = Slot(slot, np.zeros(0, dtype=np.int32)), start
    sequence.sampled, sequence.candidate.n_tokens = [PROMPT[start]], 1
    return Span(sequence, start, 1, np.ones(1, dtype=np.int8))


def test_rows_go_in_ascending_slot_order_and_come_back_in_the_order_asked() -> None:
    bench = Bench()
    assert bench.forward(span(3, 100, 2), span(1, 7, 2), span(2, 50, 2)) == [[[3, 101]], [[1, 8]], [[2, 51]]]
    assert bench.places == [(1, 7), (1, 8), (2, 50), (2, 51), (3, 100), (3, 101)]
    assert [token for _, _, token in bench.context.rows] == [*PROMPT[7:9], *PROMPT[50:52], *PROMPT[100:102]]
    assert bench.cuts == []


@pytest.mark.parametrize(
    ("asked", "wanted"),
    [
        pytest.param((), [], id="none"),
        pytest.param((0, 1, 2), [[4, 10], [4, 11], [4, 12]], id="all"),
        pytest.param((0, 2), [[4, 10], [4, 12]], id="some"),
    ],
)
@pytest.mark.parametrize("arithmetic", [QUANTISED, FLOATS])
def test_each_span_gets_the_rows_it_asked_for(
    asked: tuple[int, ...], wanted: list[list[float]], arithmetic: Arithmetic
) -> None:
    bench = Bench(arithmetic)
    first, middle, last = bench.forward(span(2, 30, 3, wanted=(0, 1)), span(4, 10, 3, wanted=asked), span(6, 0, 3))
    assert (first, middle, last) == ([[2, 30], [2, 31]], wanted, [[6, 2]])


def test_rows_that_fill_a_piece_up_are_cut_off_again_and_never_read() -> None:
    bench = Bench()
    spans = [span(6, 700), span(2, 400, 3), span(3, 10, 2, wanted=(0, 1))]
    assert bench.forward(*spans) == [[[6, 700]], [[2, 402]], [[3, 10], [3, 11]]]
    assert bench.places == [
        *((2, 400 + i) for i in range(3)),
        *((3, 10 + i) for i in range(3)),
        *((6, 700 + i) for i in range(3)),
    ]
    assert bench.context.outputs == [0, 0, 1, 1, 1, 0, 1, 0, 0]
    assert bench.context.log == [("decode", 9), ("truncate", 3, 12), ("truncate", 6, 701)]


def test_rows_that_fill_a_piece_up_are_tokens_of_the_vocabulary() -> None:
    bench = Bench()
    bench.forward(span(0, 8, 2), span(1, 0, 5))
    assert [token for _, _, token in bench.context.rows][:5] == [*PROMPT[8:10], *[PROMPT[9]] * 3]


def test_filled_piece_without_outputs_gives_none() -> None:
    assert Bench().forward(span(0, 700, wanted=())) == [[]]


@pytest.mark.parametrize("arithmetic", [QUANTISED, INDEPENDENT])
@pytest.mark.parametrize("places", [[(0, 900)], [(0, 900), (2, 5)], [(0, 900), (1, 5)]])
def test_sampled_tokens_go_alone_unless_lone_rows_have_other_numbers(
    places: list[tuple[int, int]], arithmetic: Arithmetic
) -> None:
    bench = Bench(arithmetic)
    bench.forward(*(sampled(slot, start) for slot, start in places))
    assert bench.places == places
    assert bench.context.log == [("decode", len(places))]


def test_independent_rows_go_as_they_are_side_by_side() -> None:
    bench = Bench(INDEPENDENT)
    assert bench.forward(span(3, 7, 1), sampled(0, 9), span(1, 0, 3)) == [[[3, 7]], [[0, 9]], [[1, 2]]]
    assert bench.places == [(0, 9), (1, 0), (1, 1), (1, 2), (3, 7)]
    assert bench.cuts == []


@pytest.mark.parametrize(
    ("spans", "places", "cuts"),
    [
        pytest.param([sampled(0, 5)], [(0, 5), (1, 20)], [(1, 20)], id="the-slot-behind-holds-tokens"),
        pytest.param([sampled(3, 5)], [(3, 5), (4, 0)], [(4, 0)], id="the-slot-behind-is-empty"),
        pytest.param([sampled(0, 5), sampled(1, 20)], [(0, 5), (1, 20)], [], id="the-next-slot"),
        pytest.param([sampled(1, 20), sampled(0, 5)], [(0, 5), (1, 20)], [], id="the-slot-before"),
        pytest.param(
            [sampled(0, 5), sampled(2, 7)],
            [(0, 5), (1, 20), (2, 7), (3, 0)],
            [(1, 20), (3, 0)],
            id="added-row-fills-a-gap",
        ),
        pytest.param(
            [sampled(1, 20), sampled(2, 7), sampled(5, 9)],
            [(1, 20), (2, 7), (5, 9), (6, 0)],
            [(6, 0)],
            id="one-of-three-alone",
        ),
        pytest.param([span(0, 5, 2)], [(0, 5), (0, 6)], [], id="two-rows-of-a-prompt"),
        pytest.param([span(0, 5)], [(0, 5), (0, 6)], [(0, 6)], id="filled-up"),
    ],
)
def test_floats_get_a_row_beside_one_alone_in_its_micro_batch(
    spans: list[Span], places: list[tuple[int, int]], cuts: list[tuple[int, int]]
) -> None:
    bench = Bench(FLOATS)
    bench.context.lengths[1] = 20
    results = bench.forward(*spans)
    assert bench.places == places
    assert bench.cuts == cuts
    assert results == [[[each.sequence.slot_id, each.start + each.n - 1]] for each in spans]


def test_row_beside_another_is_a_token_of_the_vocabulary_and_put_out() -> None:
    bench = Bench(FLOATS)
    bench.forward(sampled(0, 5))
    assert [token for _, _, token in bench.context.rows] == [PROMPT[5]] * 2
    assert bench.context.outputs == [1, 1]


@pytest.mark.parametrize(
    ("spans", "outputs"),
    [
        pytest.param([span(0, 10, 3)], [0, 1, 1], id="the-row-before-the-last"),
        pytest.param([span(0, 10, 3, wanted=(0, 2))], [1, 0, 1], id="two-are-wanted-anyway"),
        pytest.param([span(0, 10, 3, wanted=())], [0, 0, 0], id="none-is-wanted"),
        pytest.param([span(0, 10, 2), span(1, 10, 2)], [0, 1, 0, 1], id="two-slots-with-one-each"),
        pytest.param([span(0, 10, 2, wanted=()), span(1, 10, 2)], [0, 1, 0, 1], id="one-of-two-slots-without"),
        pytest.param([span(0, 10, 2), span(2, 10, 2)], [1, 1, 1, 1], id="each-run-by-itself"),
        pytest.param([span(0, 10, 1)], [1, 1], id="a-row-that-is-thrown-away"),
        pytest.param([span(0, 10, 2, wanted=(0,)), span(2, 0, 3, wanted=())], [1, 0, 1, 0, 0, 0], id="behind-it"),
    ],
)
def test_floats_never_put_out_a_single_row(spans: list[Span], outputs: list[int]) -> None:
    bench = Bench(FLOATS)
    results = bench.forward(*spans)
    assert bench.context.outputs == outputs
    for each, logits in zip(spans, results, strict=True):
        wanted = np.flatnonzero(each.outputs) + each.start
        assert logits == [[each.sequence.slot_id, position] for position in wanted]


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


def test_what_a_snapshot_would_not_have_all_of_is_duplicated() -> None:
    bench = Bench(INDEPENDENT)
    bench.context.too_long = frozenset({0})
    bench.runner.copy(0, 1, 30)
    bench.runner.copy(5, 0, 20)  # not before the other has read slot 0
    assert bench.context.log == [("duplicate", 0, 1), ("truncate", 1, 30), ("duplicate", 5, 0), ("truncate", 0, 20)]
    bench.forward(span(1, 30, 2))
    bench.context.log.clear()
    bench.runner.copy(5, 1, 20)
    assert bench.context.log == [("snapshot", 5), ("restore", 1, 5), ("truncate", 1, 20)]


@pytest.mark.parametrize(
    "use",
    [
        pytest.param(lambda bench: bench.runner.save(1), id="saved"),
        pytest.param(lambda bench: bench.runner.load(0, np.zeros(1, dtype=np.uint8)), id="loaded"),
        pytest.param(lambda bench: bench.runner.exchange(1, 3, 30, 0), id="exchanged"),
    ],
)
def test_duplicates_are_finished_before_their_slots_are_used(use: Callable[[Bench], object]) -> None:
    bench = Bench(INDEPENDENT)
    bench.context.too_long = frozenset({0})
    bench.runner.copy(0, 1, 30)
    bench.context.lengths[1] = 30
    bench.context.log.clear()
    use(bench)
    assert bench.context.log[:2] == [("decode", 1), ("truncate", 1, 30)]
    assert bench.places == [(1, 30)]
    bench.context.log.clear()
    bench.runner.save(1)
    assert bench.context.log == [("snapshot", 1)]


def test_state_is_restored_before_what_is_behind_it_is_cut_off() -> None:
    bench = Bench()
    bench.context.lengths[0] = 40
    state = bench.runner.state(0)
    bench.runner.copy(0, 1, 40, state)
    assert bench.context.log == [("snapshot", 0), ("restore", 1, 0), ("restore-state", 1, 0, 40), ("truncate", 1, 40)]
    bench.context.log.clear()
    bench.runner.truncate(0, 40, state)
    assert bench.context.log == [("restore-state", 0, 0, 40), ("truncate", 0, 40)]


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda bench: bench.runner.truncate(0, 50), id="cut"),
        pytest.param(lambda bench: bench.runner.exchange(0, 4, 10, 10), id="exchanged"),
        pytest.param(lambda bench: bench.runner.copy(3, 0, 100), id="overwritten"),
        pytest.param(lambda bench: bench.forward(span(5, 0, 2)), id="computed"),
    ],
)
def test_snapshot_is_taken_again_once_its_slot_may_have_changed(change: Callable[[Bench], object]) -> None:
    bench = Bench()
    bench.runner.copy(0, 1, 100)
    change(bench)
    bench.context.log.clear()
    bench.runner.copy(0, 2, 100)
    assert ("snapshot", 0) in bench.context.log


def test_exchange_restores_each_slot_in_the_other_s_place() -> None:
    bench = Bench()
    bench.runner.exchange(2, 5, 10, 20)
    assert bench.context.log[:2] == [("snapshot", 2), ("snapshot", 5)]
    assert bench.context.log[-2:] == [("restore", 5, 2), ("restore", 2, 5)]


def test_exchange_with_an_empty_slot_is_a_move() -> None:
    bench = Bench()
    bench.runner.exchange(2, 1, 10, 0)
    assert bench.context.log == [("snapshot", 2), ("truncate", 2, 0), ("truncate", 1, 0), ("restore", 1, 2)]


def test_memory_that_refuses_to_be_cut_is_an_error() -> None:
    with pytest.raises(RuntimeError, match="slot 3 to 7"):
        Bench(can_cut=False).runner.truncate(3, 7)


@pytest.mark.parametrize(
    ("arithmetic", "asked"),
    [pytest.param(QUANTISED, span(3, 6), id="filled-up"), pytest.param(FLOATS, sampled(2, 5), id="beside-another")],
)
def test_rows_that_cannot_be_cut_off_again_are_an_error(arithmetic: Arithmetic, asked: Span) -> None:
    bench = Bench(arithmetic, can_cut=False)
    bench.context.lengths[3] = 7
    with pytest.raises(RuntimeError, match="slot 3 to 7"):
        bench.forward(asked)
