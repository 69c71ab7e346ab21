import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from tests.engine.llama.desk import words
from tests.engine.llama.fake_runner import LONE, ROW, TILED

from afterword.engine.llama.kernels import TILE, boundary
from afterword.engine.llama.kv import (
    Cut,
    Demand,
    KVStreams,
    Placement,
    Reuse,
    ScoreRow,
    Stream,
    best_cut,
    common_prefix,
)

COLD = 320 + 1.5 * 80
"""Cost of a prompt of 400 tokens, 320 of them tiled."""


def demand(prompt: tuple[int, ...], *, reproducible: bool = True, score_top: int | None = None) -> Demand:
    return Demand(np.array(prompt, dtype=np.int32), reproducible, score_top)


def fill(
    kv: KVStreams, stream_id: int, tokens: tuple[int, ...], *, running: bool = False, exact: bool = True
) -> Stream:
    """Let a stream hold tokens that were cut as a prompt of their length."""
    stream = kv.stream(stream_id)
    kv.open(Placement(stream, 0, boundary(len(tokens)), None))
    kv.append(stream, tokens, exact=exact)
    if not running:
        kv.close(stream)
    return stream


def where(kv: KVStreams, asked: Demand) -> tuple[int, int, int | None] | None:
    """(stream, tokens reused, source of a copy) for a demand."""
    placement = kv.place(asked, kv.best_reuse(asked))
    if placement is None:
        return None
    source = placement.copy_from
    return placement.stream.id, placement.n_reused, None if source is None else source.id


@pytest.mark.parametrize(
    ("n", "tiled_end", "n_exact", "expected"),
    [
        pytest.param(399, 320, 400, Cut(399, 320, 1.5), id="all-but-the-last-token"),
        pytest.param(350, 320, 400, Cut(350, 320, 75.0), id="rows-anywhere-behind-the-same-boundary"),
        pytest.param(320, 320, 400, Cut(320, 320, 120.0), id="exactly-the-tiled-part"),
        pytest.param(319, 320, 400, Cut(256, 320, 184.0), id="whole-tiles-below-the-boundary"),
        pytest.param(63, 320, 400, Cut(0, 320, COLD), id="less-than-a-tile"),
        pytest.param(340, 256, 350, Cut(256, 320, 184.0), id="content-of-a-shorter-prompt"),
        pytest.param(399, 512, 600, Cut(320, 320, 120.0), id="content-of-a-longer-prompt"),
        pytest.param(100, 0, 100, Cut(0, 320, COLD), id="content-without-tiles"),
        pytest.param(200, 150, 200, Cut(128, 320, 312.0), id="content-tiled-to-no-multiple"),
        pytest.param(399, 320, 330, Cut(330, 320, 105.0), id="inexact-tail"),
    ],
)
def test_reproducible_demand_takes_what_it_would_have_computed(
    n: int, tiled_end: int, n_exact: int, expected: Cut
) -> None:
    assert best_cut(demand(words(400)), n, tiled_end=tiled_end, n_exact=n_exact) == expected


@pytest.mark.parametrize(
    ("n", "tiled_end", "n_exact", "expected"),
    [
        pytest.param(399, 320, 330, Cut(399, 320, 1.5), id="inexact-tail"),
        pytest.param(340, 256, 350, Cut(340, 256, 90.0), id="content-of-a-shorter-prompt"),
        pytest.param(399, 512, 600, Cut(399, 399, 1.5), id="content-of-a-longer-prompt"),
        pytest.param(300, 320, 400, Cut(256, 320, 184.0), id="whole-tiles-below-the-boundary"),
        pytest.param(100, 0, 100, Cut(0, 320, COLD), id="rows-that-would-make-the-rest-rows-too"),
        pytest.param(350, 0, 350, Cut(350, 0, 75.0), id="rows-that-leave-little-to-do"),
    ],
)
def test_other_demands_take_what_is_cheapest(n: int, tiled_end: int, n_exact: int, expected: Cut) -> None:
    asked = demand(words(400), reproducible=False)
    assert best_cut(asked, n, tiled_end=tiled_end, n_exact=n_exact) == expected


@pytest.mark.parametrize(
    ("a", "b", "n"),
    [
        ((), (), 0),
        ((1, 2), (), 0),
        ((1, 2), (1, 2), 2),
        ((1, 2, 3), (1, 2), 2),
        ((1, 2, 3), (1, 9, 3), 1),
        ((1,), (2,), 0),
    ],
)
def test_common_prefix(a: tuple[int, ...], b: tuple[int, ...], n: int) -> None:
    assert common_prefix(np.array(a, dtype=np.int32), np.array(b, dtype=np.int32)) == n


def scored_stream(kv: KVStreams, prompt: tuple[int, ...], *, k: int = 3, n_rows: int | None = None) -> Stream:
    """A stream whose prompt was scored, all of it or its first rows."""
    stream = fill(kv, 0, prompt)
    for i in range(len(prompt) - 1 if n_rows is None else n_rows):
        stream.rows[i] = ScoreRow(prompt[i + 1], -1.0, np.arange(k, dtype=np.int32), np.full(k, -1.0))
    return stream


@pytest.mark.parametrize(
    ("asked", "n_rows", "n"),
    [
        pytest.param(demand(words(100), score_top=3), 99, 99, id="same-prompt"),
        pytest.param(demand(words(100), score_top=0), 99, 99, id="fewer-of-the-likeliest"),
        pytest.param(demand(words(100), score_top=4), 99, 0, id="more-of-the-likeliest"),
        pytest.param(demand(words(100)), 99, 99, id="not-scored"),
        pytest.param(demand(words(100), score_top=3), 70, 70, id="first-missing-row"),
        pytest.param(demand((*words(80), 64), score_top=3), 99, 79, id="row-before-the-branch-has-another-follower"),
        pytest.param(demand(words(101), score_top=3), 99, 99, id="last-token-has-no-follower-yet"),
        pytest.param(demand(words(90), score_top=3), 99, 89, id="shorter-prompt"),
    ],
)
def test_scored_demand_reuses_as_far_as_its_rows_are_known(asked: Demand, n_rows: int, n: int) -> None:
    kv = KVStreams(1, 200)
    scored_stream(kv, words(100), n_rows=n_rows)
    reuse = kv.best_reuse(asked)
    assert (0 if reuse is None else reuse.n) == n


def test_missing_row_among_tiles_costs_the_whole_tile() -> None:
    kv = KVStreams(1, 500)
    scored_stream(kv, words(400), n_rows=200)
    reuse = kv.best_reuse(demand(words(400), score_top=1))
    assert reuse is not None
    assert (reuse.n, reuse.tiled_end) == (192, 320)


def test_rows_are_cut_and_copied_with_their_tokens() -> None:
    kv = KVStreams(2, 200)
    source = scored_stream(kv, words(100))
    copy = kv.stream(1)
    kv.open(Placement(copy, 60, 0, source))
    assert copy.rows == source.rows[:60]
    kv.append(copy, [1, 2], exact=True)
    assert copy.rows[60:] == [None, None]
    assert len(source.rows) == 100
    copy.cut(10)
    assert len(copy.rows) == 10


def test_best_reuse_leaves_the_least_to_compute() -> None:
    kv = KVStreams(3, 700)
    fill(kv, 0, words(200))
    longest = fill(kv, 1, words(390))
    fill(kv, 2, words(600))
    # 390 tokens have the boundary of 400; 600 share as many tokens but were tiled further.
    assert kv.best_reuse(demand(words(400))) == Reuse(longest, 390, 320, 15.0)


def test_nothing_in_common_is_no_reuse() -> None:
    kv = KVStreams(2, 300)
    fill(kv, 0, words(200, 1))
    assert kv.best_reuse(demand(words(200))) is None


def test_last_prompt_token_is_always_computed() -> None:
    kv = KVStreams(1, 300)
    fill(kv, 0, words(200))
    reuse = kv.best_reuse(demand(words(200)))
    assert reuse is not None
    assert reuse.n == 199


def test_stream_that_loses_little_is_used_in_place() -> None:
    kv = KVStreams(2, 300)
    fill(kv, 0, words(100))
    assert where(kv, demand((*words(36), 64))) == (0, 36, None)  # 64 tokens lost


def test_stream_worth_keeping_is_copied() -> None:
    kv = KVStreams(2, 300)
    fill(kv, 0, words(100))
    assert where(kv, demand((*words(35), 64))) == (1, 35, 0)  # 65 tokens would be lost


def test_running_stream_is_copied() -> None:
    kv = KVStreams(3, 300)
    fill(kv, 0, words(100), running=True)
    assert where(kv, demand(words(100))) == (1, 99, 0)


@pytest.mark.parametrize(("n_shared", "place"), [(31, (1, 0, None)), (32, (1, 32, 0))])
def test_short_prefix_is_computed_again_rather_than_copied(n_shared: int, place: tuple[int, int, int | None]) -> None:
    kv = KVStreams(2, 300)
    fill(kv, 0, words(100), running=True)
    assert where(kv, demand((*words(n_shared), 64, 64))) == place


def test_short_prefix_in_place_is_reused() -> None:
    kv = KVStreams(2, 300)
    fill(kv, 0, words(40))
    assert where(kv, demand((*words(5), 64))) == (0, 5, None)


def test_lowest_empty_stream_goes_first() -> None:
    kv = KVStreams(4, 300)
    fill(kv, 0, words(100), running=True)
    fill(kv, 1, words(100, 1))
    assert where(kv, demand(words(50, 2))) == (2, 0, None)


def test_least_recently_used_stream_is_overwritten() -> None:
    kv = KVStreams(3, 300)
    for stream_id in (1, 2, 0):
        fill(kv, stream_id, words(200, stream_id + 1))
    assert where(kv, demand(words(50))) == (1, 0, None)


def test_source_of_the_copy_is_overwritten_last() -> None:
    kv = KVStreams(2, 300)
    fill(kv, 0, words(127))  # least recently used, but it has the prefix
    fill(kv, 1, words(200, 1))
    assert where(kv, demand((*words(60), 64))) == (1, 60, 0)


def test_source_is_cut_if_no_other_stream_is_left() -> None:
    kv = KVStreams(2, 300)
    fill(kv, 0, words(200))
    fill(kv, 1, words(200, 1), running=True)
    asked = demand((*words(60), 64), reproducible=False)
    placement = kv.place(asked, kv.best_reuse(asked))
    assert placement == Placement(kv.stream(0), 60, 60, None)
    kv.open(placement)
    assert (kv.stream(0).n, kv.stream(0).tiled_end, kv.stream(0).n_exact) == (60, 60, 60)


def test_no_stream_for_a_demand_while_all_run() -> None:
    kv = KVStreams(1, 300)
    fill(kv, 0, words(100), running=True)
    assert where(kv, demand(words(100))) is None


def test_copying_counts_as_use_of_the_source() -> None:
    kv = KVStreams(3, 300)
    fill(kv, 0, words(200))
    fill(kv, 1, words(200, 1))
    kv.open(Placement(kv.stream(2), 100, 128, kv.stream(0)))
    assert where(kv, demand(words(50, 2))) == (1, 0, None)


def test_memory_that_cannot_be_cut_gives_whole_streams_only() -> None:
    kv = KVStreams(2, 300, can_cut=False)
    fill(kv, 0, words(100))
    assert where(kv, demand((*words(99), 64, 64))) == (1, 0, None)
    assert where(kv, demand((*words(100), 64))) == (0, 100, None)


def test_inexact_tokens_are_not_for_reproducible_demands() -> None:
    kv = KVStreams(2, 300)
    stream = fill(kv, 0, words(50), running=True)
    kv.append(stream, words(60)[50:], exact=False)
    kv.append(stream, words(70)[60:], exact=True)  # exact by kernel, but after inexact ones
    assert where(kv, demand(words(70))) == (1, 50, 0)
    assert where(kv, demand(words(70), reproducible=False)) == (1, 69, 0)


def test_prompt_that_was_left_half_way_ends_its_tiles_there() -> None:
    kv = KVStreams(1, 900)
    stream = kv.stream(0)
    kv.open(Placement(stream, 0, boundary(800), None))
    kv.append(stream, words(256), exact=True)
    kv.close(stream)
    assert stream.tiled_end == 256


def test_forgetting_spares_running_streams() -> None:
    kv = KVStreams(2, 300)
    fill(kv, 0, words(100), running=True)
    fill(kv, 1, words(100))
    assert (kv.n_running, kv.n_idle, kv.n_free) == (1, 1, 1)
    kv.forget()
    assert (kv.n_running, kv.n_idle, kv.n_free) == (1, 0, 1)
    assert (kv.stream(0).n, kv.stream(1).n) == (100, 0)


def test_exchange_moves_everything_but_the_number() -> None:
    kv = KVStreams(2, 300)
    first = fill(kv, 0, words(200), running=True)
    second = fill(kv, 1, words(130, 1))
    used = (first.used_at, second.used_at)
    kv.exchange(first, second)
    assert (first.id, first.n, first.tiled_end, first.running) == (0, 130, 64, False)
    assert (second.id, second.n, second.tiled_end, second.running) == (1, 200, 128, True)
    assert first.tokens[:130].tolist() == list(words(130, 1))
    assert second.tokens[:200].tolist() == list(words(200))
    assert (second.used_at, first.used_at) == used


class Books(RuleBasedStateMachine):
    """Random prompts come, grow, leave and change places; a list of (token, kernel) a stream says what is true."""

    def __init__(self) -> None:
        super().__init__()
        self.kv = KVStreams(3, 700)
        self.truth: list[list[tuple[int, str]]] = [[], [], []]

    @rule(
        n=st.sampled_from([1, 40, 100, 128, 200, 390, 400, 600]),
        n_tail=st.sampled_from([0, 1, 30, 70]),
        reproducible=st.booleans(),
    )
    def claim(self, n: int, n_tail: int, reproducible: bool) -> None:
        asked = demand(words(n) + words(n_tail, 1), reproducible=reproducible)
        placement = self.kv.place(asked, self.kv.best_reuse(asked))
        if placement is None:
            assert self.kv.n_free == 0
            return
        stream, n_reused = placement.stream, placement.n_reused
        source = stream if placement.copy_from is None else placement.copy_from
        kept = self.truth[source.id][:n_reused]
        self.kv.open(placement)
        assert [token for token, _ in kept] == asked.prompt[:n_reused].tolist()
        if reproducible:
            own = [TILED if i < boundary(len(asked.prompt)) else ROW for i in range(n_reused)]
            assert [kernel for _, kernel in kept] == own
        self.truth[stream.id] = list(kept)
        self._compute(stream, asked.prompt[n_reused:].tolist())

    @precondition(lambda self: self.kv.n_running > 0)
    @rule(data=st.data(), n=st.integers(1, 20), kernel=st.sampled_from([ROW, ROW, LONE]))
    def sample(self, data: st.DataObject, n: int, kernel: str) -> None:
        stream = self._pick_running(data)
        n = min(n, 700 - stream.n)
        start = stream.n
        self.kv.append(stream, words(start + n)[start:], exact=kernel == ROW)
        self.truth[stream.id] += [(token, kernel) for token in words(start + n)[start:]]

    @precondition(lambda self: self.kv.n_running > 0)
    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        self.kv.close(self._pick_running(data))

    @rule(a=st.integers(0, 2), b=st.integers(0, 2))
    def change_places(self, a: int, b: int) -> None:
        self.kv.exchange(self.kv.stream(a), self.kv.stream(b))
        self.truth[a], self.truth[b] = self.truth[b], self.truth[a]

    @rule()
    def forget(self) -> None:
        self.kv.forget()
        for stream in self.kv:
            if not stream.running:
                self.truth[stream.id] = []

    @invariant()
    def books_are_true(self) -> None:
        self.kv.check_invariants()
        for stream in self.kv:
            truth = self.truth[stream.id]
            assert stream.tokens[: stream.n].tolist() == [token for token, _ in truth]
            assert [kernel == TILED for _, kernel in truth] == [i < stream.tiled_end for i in range(stream.n)]
            assert all(kernel != LONE for _, kernel in truth[: stream.n_exact])

    def _pick_running(self, data: st.DataObject) -> Stream:
        return data.draw(st.sampled_from([stream for stream in self.kv if stream.running]))

    def _compute(self, stream: Stream, tokens: list[int]) -> None:
        n_tiled = max(0, stream.tiled_end - stream.n)
        assert n_tiled % TILE == 0
        self.kv.append(stream, tokens, exact=True)
        self.truth[stream.id] += [(token, TILED) for token in tokens[:n_tiled]]
        self.truth[stream.id] += [(token, ROW) for token in tokens[n_tiled:]]


TestBooks = Books.TestCase
TestBooks.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
