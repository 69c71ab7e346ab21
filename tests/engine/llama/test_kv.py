import itertools

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.engine.llama.fake_context import SEVERAL, SINGLE, n_as_prompt
from tests.engine.llama.harness import words

from afterword.engine.llama.demand import Demand, ScoreRow
from afterword.engine.llama.kv import KVSlots, Placement, Reuse, Slot, common_prefix


def demand(prompt: tuple[int, ...], *, reproducible: bool = True, score_top: int | None = None) -> Demand:
    return Demand(np.array(prompt, dtype=np.int32), reproducible, score_top)


def fill(kv: KVSlots, slot_id: int, tokens: tuple[int, ...], *, running: bool = False, exact: bool = True) -> Slot:
    """Let a slot hold tokens that were computed as a prompt or, if not `exact`, sampled."""
    slot = kv.slot(slot_id)
    kv.open(Placement(slot, 0, None))
    kv.append(slot, tokens, exact=exact)
    if not running:
        kv.close(slot)
    return slot


def where(kv: KVSlots, asked: Demand) -> tuple[int, int, int | None] | None:
    """(slot, tokens reused, source of a copy) for a demand."""
    placement = kv.place(kv.best_reuse(asked))
    if placement is None:
        return None
    source = placement.copy_from
    return placement.slot.id, placement.n_reused, None if source is None else source.id


@pytest.mark.parametrize(
    ("prompt", "reproducible", "n"),
    [
        pytest.param(words(40), True, 39, id="shorter-prompt"),
        pytest.param(words(60), True, 59, id="same-as-was-computed-as-a-prompt"),
        pytest.param(words(61), True, 60, id="one-token-more"),
        pytest.param(words(90), True, 60, id="same-with-what-was-sampled"),
        pytest.param(words(90), False, 89, id="all-but-the-last-token"),
        pytest.param(words(200), False, 90, id="longer-prompt"),
        pytest.param((*words(50), 64, 64), True, 50, id="branch-among-the-exact"),
        pytest.param((*words(70), 64, 64), True, 60, id="branch-among-the-sampled"),
        pytest.param((*words(70), 64, 64), False, 70, id="branch-among-the-sampled-without-a-seed"),
        pytest.param(words(1), True, 0, id="nothing-before-the-last-token"),
        pytest.param((64, *words(90)), False, 0, id="another-beginning"),
    ],
)
def test_reproducible_demand_takes_what_it_would_have_computed(
    prompt: tuple[int, ...], reproducible: bool, n: int
) -> None:
    kv = KVSlots(1, 300)
    slot = fill(kv, 0, words(60), running=True)
    kv.append(slot, words(90)[60:], exact=False)
    reuse = kv.best_reuse(demand(prompt, reproducible=reproducible))
    assert reuse == (Reuse(slot, n) if n else None)


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


def scored_slot(kv: KVSlots, prompt: tuple[int, ...], *, k: int = 3, n_rows: int | None = None) -> Slot:
    """A slot whose prompt was scored, all of it or its first rows."""
    slot = fill(kv, 0, prompt)
    for i in range(len(prompt) - 1 if n_rows is None else n_rows):
        slot.rows[i] = ScoreRow(prompt[i + 1], -1.0, np.arange(k, dtype=np.int32), np.full(k, -1.0))
    return slot


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
    kv = KVSlots(1, 200)
    scored_slot(kv, words(100), n_rows=n_rows)
    reuse = kv.best_reuse(asked)
    assert (0 if reuse is None else reuse.n) == n


def test_score_rows_of_sampled_tokens_are_not_for_reproducible_demands() -> None:
    kv = KVSlots(1, 200)
    slot = scored_slot(kv, words(100))
    slot.n_exact = 40
    assert kv.best_reuse(demand(words(100), score_top=1)) == Reuse(slot, 40)
    assert kv.best_reuse(demand(words(100), score_top=1, reproducible=False)) == Reuse(slot, 99)


def test_rows_are_cut_and_copied_with_their_tokens() -> None:
    kv = KVSlots(2, 200)
    source = scored_slot(kv, words(100))
    copy = kv.slot(1)
    kv.open(Placement(copy, 60, source))
    assert copy.rows == source.rows[:60]
    kv.append(copy, [1, 2], exact=True)
    assert copy.rows[60:] == [None, None]
    assert len(source.rows) == 100
    copy.cut(10)
    assert len(copy.rows) == 10


def test_best_reuse_is_the_longest() -> None:
    kv = KVSlots(4, 700)
    fill(kv, 0, words(200))
    longest = fill(kv, 1, words(390))
    fill(kv, 2, (*words(300), *words(300, 1)))
    sampled = fill(kv, 3, words(399), exact=False)
    assert kv.best_reuse(demand(words(400))) == Reuse(longest, 390)
    assert kv.best_reuse(demand(words(400), reproducible=False)) == Reuse(sampled, 399)


def test_nothing_in_common_is_no_reuse() -> None:
    kv = KVSlots(2, 300)
    fill(kv, 0, words(200, 1))
    assert kv.best_reuse(demand(words(200))) is None


def test_last_prompt_token_is_always_computed() -> None:
    kv = KVSlots(1, 300)
    fill(kv, 0, words(200))
    reuse = kv.best_reuse(demand(words(200)))
    assert reuse is not None
    assert reuse.n == 199


def test_slot_that_loses_little_is_used_in_place() -> None:
    kv = KVSlots(2, 300)
    fill(kv, 0, words(100))
    assert where(kv, demand((*words(36), 64))) == (0, 36, None)  # 64 tokens lost


def test_slot_worth_keeping_is_copied() -> None:
    kv = KVSlots(2, 300)
    fill(kv, 0, words(100))
    assert where(kv, demand((*words(35), 64))) == (1, 35, 0)  # 65 tokens would be lost


def test_running_slot_is_copied() -> None:
    kv = KVSlots(3, 300)
    fill(kv, 0, words(100), running=True)
    assert where(kv, demand(words(100))) == (1, 99, 0)


@pytest.mark.parametrize(("n_shared", "place"), [(31, (1, 0, None)), (32, (1, 32, 0))])
def test_short_prefix_is_computed_again_rather_than_copied(n_shared: int, place: tuple[int, int, int | None]) -> None:
    kv = KVSlots(2, 300)
    fill(kv, 0, words(100), running=True)
    assert where(kv, demand((*words(n_shared), 64, 64))) == place


def test_short_prefix_in_its_place_goes_before_an_equal_one_that_would_have_to_be_copied() -> None:
    kv = KVSlots(2, 300)
    fill(kv, 0, (*words(10), *words(200, 1)))
    fill(kv, 1, (*words(10), *words(20, 2)))
    assert where(kv, demand((*words(10), *words(5, 3)))) == (1, 10, None)


def test_short_prefix_in_place_is_reused() -> None:
    kv = KVSlots(2, 300)
    fill(kv, 0, words(40))
    assert where(kv, demand((*words(5), 64))) == (0, 5, None)


def test_lowest_empty_slot_goes_first() -> None:
    kv = KVSlots(4, 300)
    fill(kv, 0, words(100), running=True)
    fill(kv, 1, words(100, 1))
    assert where(kv, demand(words(50, 2))) == (2, 0, None)


def test_least_recently_used_slot_is_overwritten() -> None:
    kv = KVSlots(3, 300)
    for slot_id in (1, 2, 0):
        fill(kv, slot_id, words(200, slot_id + 1))
    assert where(kv, demand(words(50))) == (1, 0, None)


def test_source_of_the_copy_is_overwritten_last() -> None:
    kv = KVSlots(2, 300)
    fill(kv, 0, words(127))  # least recently used, but it has the prefix
    fill(kv, 1, words(200, 1))
    assert where(kv, demand((*words(60), 64))) == (1, 60, 0)


def test_source_is_cut_if_no_other_slot_is_left() -> None:
    kv = KVSlots(2, 300)
    fill(kv, 0, words(200))
    fill(kv, 1, words(200, 1), running=True)
    asked = demand((*words(60), 64), reproducible=False)
    placement = kv.place(kv.best_reuse(asked))
    assert placement == Placement(kv.slot(0), 60, None)
    kv.open(placement)
    assert (kv.slot(0).n, kv.slot(0).n_exact) == (60, 60)


def test_no_slot_for_a_demand_while_all_run() -> None:
    kv = KVSlots(1, 300)
    fill(kv, 0, words(100), running=True)
    assert where(kv, demand(words(100))) is None


def test_copying_counts_as_use_of_the_source() -> None:
    kv = KVSlots(3, 300)
    fill(kv, 0, words(200))
    fill(kv, 1, words(200, 1))
    kv.open(Placement(kv.slot(2), 100, kv.slot(0)))
    assert where(kv, demand(words(50, 2))) == (1, 0, None)


def stateful(n_slots: int, n_checkpoints: int = 100) -> KVSlots:
    """Slots whose memory cannot be cut, with room for so many checkpoints of one byte."""
    return KVSlots(n_slots, 300, can_cut=False, checkpoint_bytes=n_checkpoints)


def fill_and_keep(kv: KVSlots, slot_id: int, tokens: tuple[int, ...], *places: int, running: bool = False) -> Slot:
    """Let a slot hold tokens, its state kept at some places."""
    slot = fill(kv, slot_id, (), running=True)
    for start, end in itertools.pairwise((0, *places, len(tokens))):
        kv.append(slot, tokens[start:end], exact=True)
        if end in places and kv.n_behind(slot) > 0:
            kv.keep(slot, np.zeros(1, dtype=np.uint8))
    if not running:
        kv.close(slot)
    return slot


def kept(slot: Slot) -> list[int]:
    return [checkpoint.n for checkpoint in slot.checkpoints]


def test_memory_that_cannot_be_cut_gives_whole_slots() -> None:
    kv = stateful(2)
    fill(kv, 0, words(100))
    assert where(kv, demand((*words(99), 64, 64))) == (1, 0, None)
    assert where(kv, demand((*words(100), 64))) == (0, 100, None)


def test_memory_that_cannot_be_cut_gives_a_prefix_up_to_a_checkpoint() -> None:
    kv = stateful(2)
    slot = fill_and_keep(kv, 0, words(100), 40, 70)
    reuse = kv.best_reuse(demand((*words(80), 64)))
    assert reuse == Reuse(slot, 70, slot.checkpoints[1])
    assert kv.place(reuse) == Placement(slot, 70, None, slot.checkpoints[1])
    assert kv.best_reuse(demand(words(70))) == Reuse(slot, 40, slot.checkpoints[0])
    assert kv.best_reuse(demand(words(40))) is None
    assert kv.n_shared(demand((*words(80), 64))) == 80


def test_checkpoints_are_cut_and_copied_with_their_tokens() -> None:
    kv = stateful(2)
    source = fill_and_keep(kv, 0, words(200), 40, 70, 150)
    placement = kv.place(kv.best_reuse(demand((*words(80), 64))))
    assert placement == Placement(kv.slot(1), 70, source, source.checkpoints[1])
    kv.open(placement)
    assert (kept(source), kept(kv.slot(1))) == ([40, 70, 150], [40, 70])
    source.cut(70)
    assert kept(source) == [40, 70]
    source.cut(69)
    assert kept(source) == [40]
    kv.exchange(source, kv.slot(1))
    assert (kept(source), kept(kv.slot(1))) == ([40, 70], [40])


@pytest.mark.parametrize(
    ("capacity", "n_behind", "places", "due"),
    [
        pytest.param(2000, 0, {40}, False, id="kept-already"),
        pytest.param(2000, 5, {45}, True, id="at-a-place"),
        pytest.param(2000, 5, {44, 46}, False, id="between-places"),
        pytest.param(2000, 255, set(), False, id="not-yet"),
        pytest.param(2000, 256, set(), True, id="now-and-then"),
        pytest.param(8000, 499, set(), False, id="long-slot-not-yet"),
        pytest.param(8000, 500, set(), True, id="long-slot-now-and-then"),
    ],
)
def test_a_state_is_due_at_its_place_and_now_and_then(
    capacity: int, n_behind: int, places: set[int], due: bool
) -> None:
    kv = KVSlots(1, capacity, can_cut=False, checkpoint_bytes=100)
    slot = fill_and_keep(kv, 0, words(40 + n_behind), 40, running=True)
    assert kv.n_behind(slot) == n_behind
    assert kv.is_due(slot, places) == due


def test_no_state_is_due_where_memory_can_be_cut() -> None:
    kv = KVSlots(1, 2000)
    slot = fill(kv, 0, words(300), running=True)
    assert not kv.is_due(slot, {300})


def test_least_recently_used_checkpoint_goes_first_from_every_slot_that_has_it() -> None:
    kv = stateful(3, n_checkpoints=3)
    first = fill_and_keep(kv, 0, words(200), 40, 70)
    placement = kv.place(kv.best_reuse(demand((*words(60), 64))))
    assert placement is not None
    kv.open(placement)  # uses the one of 40
    copied = placement.slot
    assert (kept(first), kept(copied)) == ([40, 70], [40])
    second = fill_and_keep(kv, 2, words(200, 1), 50, 90)
    assert (kept(first), kept(copied), kept(second)) == ([40], [40], [50, 90])
    kv.open(Placement(second, 200, None))
    kv.keep(second, np.zeros(1, dtype=np.uint8))
    assert (kept(first), kept(copied), kept(second)) == ([], [], [50, 90, 200])


def test_a_state_for_which_there_is_no_memory_is_not_kept() -> None:
    kv = stateful(1, n_checkpoints=0)
    assert kept(fill_and_keep(kv, 0, words(100), 40)) == []


def test_inexact_tokens_are_not_for_reproducible_demands() -> None:
    kv = KVSlots(2, 300)
    slot = fill(kv, 0, words(50), running=True)
    kv.append(slot, words(60)[50:], exact=False)
    kv.append(slot, words(70)[60:], exact=True)  # as a prompt, but after sampled ones
    assert where(kv, demand(words(70))) == (1, 50, 0)
    assert where(kv, demand(words(70), reproducible=False)) == (1, 69, 0)


@pytest.mark.parametrize(
    ("n_reused", "n_exact"), [pytest.param(40, 40, id="within"), pytest.param(60, 50, id="beyond")]
)
@pytest.mark.parametrize("copied", [True, False])
def test_reused_prefix_is_as_exact_as_it_was(n_reused: int, n_exact: int, copied: bool) -> None:
    kv = KVSlots(2, 300)
    source = fill(kv, 0, words(50), running=True)
    kv.append(source, words(70)[50:], exact=False)
    kv.close(source)
    target = kv.slot(1) if copied else source
    kv.open(Placement(target, n_reused, source if copied else None))
    assert (target.n, target.n_exact) == (n_reused, n_exact)


def test_exchange_moves_everything_but_the_number() -> None:
    kv = KVSlots(2, 300)
    first = fill(kv, 0, words(200), running=True)
    second = fill(kv, 1, words(130, 1), exact=False)
    used = (first.used_at, second.used_at)
    kv.exchange(first, second)
    assert (first.id, first.n, first.n_exact, first.running) == (0, 130, 0, False)
    assert (second.id, second.n, second.n_exact, second.running) == (1, 200, 200, True)
    assert first.tokens[:130].tolist() == list(words(130, 1))
    assert second.tokens[:200].tolist() == list(words(200))
    assert (second.used_at, first.used_at) == used


class Books(RuleBasedStateMachine):
    """Random prompts come, grow, leave and change places; a list of (token, way) a slot says what is true."""

    kv: KVSlots

    def __init__(self) -> None:
        super().__init__()
        self.truth: list[list[tuple[int, str]]] = [[], [], []]
        self.kept: list[dict[int, int]] = [{}, {}, {}]
        """Of each slot's checkpoints, the number of tokens and of the state."""
        self.n_kept = 0

    @initialize(can_cut=st.booleans(), n_checkpoints=st.sampled_from([0, 1, 4, 250]))
    def begin(self, can_cut: bool, n_checkpoints: int) -> None:
        self.kv = KVSlots(3, 700, can_cut=can_cut, checkpoint_bytes=n_checkpoints)

    @rule(
        n=st.sampled_from([1, 20, 31, 32, 33, 40, 64, 65, 100, 400, 600]),
        n_tail=st.sampled_from([0, 1, 30, 70]),
        reproducible=st.booleans(),
    )
    def claim(self, n: int, n_tail: int, reproducible: bool) -> None:
        asked = demand(words(n) + words(n_tail, 1), reproducible=reproducible)
        reuse = self.kv.best_reuse(asked)
        most = max(self._n_saved(slot, asked) for slot in self.kv)
        if reuse is not None:
            assert reuse.n == self._n_lawful(reuse.slot, asked)
            whole = self.kv.can_cut or reuse.n == reuse.slot.n
            assert (reuse.checkpoint is None) == whole
            assert reuse.checkpoint is None or self.kept[reuse.slot.id][reuse.n] == reuse.checkpoint.state[0]
        assert (0 if reuse is None else self._n_saved(reuse.slot, asked)) == most
        placement = self.kv.place(reuse)
        if placement is None:
            assert self.kv.n_free == 0
            return
        slot, n_reused = placement.slot, placement.n_reused
        assert n_reused >= most
        source = slot if placement.copy_from is None else placement.copy_from
        kept = self.truth[source.id][:n_reused]
        self.kv.open(placement)
        assert [token for token, _ in kept] == asked.prompt[:n_reused].tolist()
        assert not reproducible or {way for _, way in kept} <= {SEVERAL}
        rest = asked.prompt[n_reused:].tolist()
        self.kv.append(slot, rest, exact=True)
        self.kept[slot.id] = {n: state for n, state in self.kept[source.id].items() if n <= n_reused}
        self.truth[slot.id] = kept + [(token, SEVERAL) for token in rest]

    @precondition(lambda self: self.kv.n_running > 0)
    @rule(data=st.data(), n=st.integers(1, 20))
    def sample(self, data: st.DataObject, n: int) -> None:
        slot = self._pick_running(data)
        n = min(n, 700 - slot.n)
        start = slot.n
        self.kv.append(slot, words(start + n)[start:], exact=False)
        self.truth[slot.id] += [(token, SINGLE) for token in words(start + n)[start:]]

    @precondition(lambda self: any(slot.running and self.kv.n_behind(slot) > 0 for slot in self.kv))
    @rule(data=st.data())
    def keep(self, data: st.DataObject) -> None:
        slot = data.draw(st.sampled_from([s for s in self.kv if s.running and self.kv.n_behind(s) > 0]))
        self.n_kept += 1
        self.kept[slot.id][slot.n] = self.n_kept % 250
        self.kv.keep(slot, np.array([self.n_kept % 250], dtype=np.uint8))
        # Some may have gone for it.
        for each, held in zip(self.kv, self.kept, strict=True):
            gone = held.keys() - {checkpoint.n for checkpoint in each.checkpoints}
            self.kept[each.id] = {n: state for n, state in held.items() if n not in gone}

    @precondition(lambda self: self.kv.n_running > 0)
    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        self.kv.close(self._pick_running(data))

    @rule(a=st.integers(0, 2), b=st.integers(0, 2))
    def change_places(self, a: int, b: int) -> None:
        self.kv.exchange(self.kv.slot(a), self.kv.slot(b))
        self.truth[a], self.truth[b] = self.truth[b], self.truth[a]
        self.kept[a], self.kept[b] = self.kept[b], self.kept[a]

    @invariant()
    def records_are_true(self) -> None:
        self.kv.check_invariants()
        for slot in self.kv:
            truth = self.truth[slot.id]
            assert slot.tokens[: slot.n].tolist() == [token for token, _ in truth]
            assert slot.n_exact == n_as_prompt([way for _, way in truth])
            assert {checkpoint.n: checkpoint.state[0] for checkpoint in slot.checkpoints} == self.kept[slot.id]

    def _pick_running(self, data: st.DataObject) -> Slot:
        return data.draw(st.sampled_from([slot for slot in self.kv if slot.running]))

    def _n_saved(self, slot: Slot, asked: Demand) -> int:
        """What using a slot saves: a prefix in its place, or one that is worth a copy."""
        truth = self.truth[slot.id]
        n = self._n_lawful(slot, asked)
        in_place = not slot.running and len(truth) - n <= 64
        return n if in_place or n >= 32 else 0

    def _n_lawful(self, slot: Slot, asked: Demand) -> int:
        """Tokens of a slot that the demand could use, counted one by one."""
        n = 0
        for (token, way), own in zip(self.truth[slot.id], asked.prompt[:-1].tolist(), strict=False):
            if token != own or (asked.reproducible and way == SINGLE):
                break
            n += 1
        if self.kv.can_cut or n == len(self.truth[slot.id]):
            return n
        return max((place for place in self.kept[slot.id] if place <= n), default=0)


TestBooks = Books.TestCase
TestBooks.settings = settings(max_examples=60, stateful_step_count=30)
