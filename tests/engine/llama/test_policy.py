from dataclasses import dataclass, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from afterword.engine.llama.arithmetic import FLOATS, INDEPENDENT, MICRO_BATCH, QUANTISED, Arithmetic
from afterword.engine.llama.policy import Batch, Piece, Turns, next_batch

ALONE = replace(INDEPENDENT, prompts_alone=True)
ARITHMETICS = st.sampled_from([QUANTISED, FLOATS, INDEPENDENT, ALONE])
MOST_ROOM = 4


@dataclass(frozen=True, slots=True)
class Seen:
    """A running sequence as a policy sees it."""

    slot_id: int
    n_pending: int
    prefilling: bool = True
    n_room: int = 4096
    n_most: int = 4096

    @property
    def n_next(self) -> int:
        return min(self.n_pending, self.n_most)

    def has_one_row(self, arithmetic: Arithmetic) -> bool:
        return not self.prefilling or (self.n_pending == 1 and arithmetic.rows_needed == 1)


def samples(slot: int) -> Seen:
    return Seen(slot, 1, prefilling=False)


@st.composite
def running(draw: st.DrawFn) -> list[Seen]:
    """Up to 40 sequences in any slots, with little room behind them."""
    slots = draw(st.lists(st.integers(0, 254), max_size=40, unique=True))
    seen: list[Seen] = []
    for slot in slots:
        prefilling = draw(st.booleans())
        n = draw(st.sampled_from([1, 2, 3, 20, 60, 63, 64, 65, 100, 128, 255, 256, 257, 900])) if prefilling else 1
        n_most = draw(st.sampled_from([1, 16, 64, 4096]))
        seen.append(Seen(slot, n, prefilling, n + draw(st.integers(1, MOST_ROOM)), n_most))
    return seen


TURNS = st.builds(Turns, prompts_went_last=st.booleans(), oldest_led=st.booleans())


def rows_of(batch: Batch, prefilling: bool, arithmetic: Arithmetic) -> list[int]:
    """The rows of each piece."""
    lengths = [piece.n for piece in batch.pieces]
    return [arithmetic.rows(n, max(lengths)) for n in lengths] if prefilling else lengths


@given(running(), TURNS, ARITHMETICS)
def test_batch_is_lawful(sequences: list[Seen], turns: Turns, arithmetic: Arithmetic) -> None:
    batch = next_batch(sequences, turns, arithmetic)
    by_slot = {s.slot_id: s for s in sequences}
    assert bool(batch.pieces) == bool(sequences)
    chosen = [by_slot[piece.slot] for piece in batch.pieces]
    assert len({s.slot_id for s in chosen}) == len(chosen)
    assert len({s.has_one_row(arithmetic) for s in chosen}) <= 1, "prompts and sampling sequences do not mix"
    assert all(1 <= piece.n <= s.n_next for piece, s in zip(batch.pieces, chosen, strict=True))
    assert not arithmetic.prompts_alone or len(batch.pieces) == 1 or all(piece.n == 1 for piece in batch.pieces)
    rows = rows_of(batch, not any(s.has_one_row(arithmetic) for s in chosen), arithmetic)
    assert sum(rows) <= MICRO_BATCH
    assert all(n <= s.n_room for n, s in zip(rows, chosen, strict=True))
    assert next_batch(sequences, turns, arithmetic) == batch


@given(running(), TURNS, ARITHMETICS)
def test_nobody_waits_for_more_than_one_piece(sequences: list[Seen], turns: Turns, arithmetic: Arithmetic) -> None:
    n_sampling = sum(s.has_one_row(arithmetic) for s in sequences)
    first = next_batch(sequences, turns, arithmetic)
    second = next_batch(sequences, first.turns, arithmetic)
    for batch in (first, second):
        if batch.turns.prompts_went_last and n_sampling > 0:
            assert sum(rows_of(batch, True, arithmetic)) <= max(64, min(256, 1.5 * n_sampling))
    if n_sampling > 0:
        everybody = {s.slot_id for s in sequences if s.has_one_row(arithmetic)}
        assert everybody in ({piece.slot for piece in first.pieces}, {piece.slot for piece in second.pieces})


@given(running(), TURNS, ARITHMETICS)
def test_oldest_prompt_is_read_in_every_second_turn_of_prompts(
    sequences: list[Seen], turns: Turns, arithmetic: Arithmetic
) -> None:
    prompts = [s for s in sequences if not s.has_one_row(arithmetic)]
    read: list[int] = []
    for _ in range(4):
        batch = next_batch(sequences, turns, arithmetic)
        turns = batch.turns
        read += [piece.slot for piece in batch.pieces if turns.prompts_went_last]
    assert not prompts or prompts[0].slot_id in read


@pytest.mark.parametrize(
    ("prompts", "sampling", "lead"),
    [
        pytest.param([Seen(9, 900), Seen(3, 50)], [], 3, id="shortest"),
        pytest.param([Seen(9, 100), Seen(3, 60)], [8], 9, id="hardly-longer-and-nearer-to-one-that-samples"),
        pytest.param([Seen(9, 121), Seen(3, 60)], [8], 3, id="too-long-to-go-first"),
        pytest.param([Seen(9, 70), Seen(3, 60), Seen(1, 90)], [], 1, id="nearest-to-where-sampling-will-begin"),
        pytest.param([Seen(7, 70), Seen(9, 60)], [8], 9, id="of-equally-near-the-shorter"),
    ],
)
def test_lead_when_it_is_not_the_oldest_one_s_turn(prompts: list[Seen], sampling: list[int], lead: int) -> None:
    batch = next_batch([*prompts, *map(samples, sampling)], Turns(False, oldest_led=True), QUANTISED)
    assert batch.pieces[0].slot == lead
    assert batch.turns == Turns(True, False)


@pytest.mark.parametrize("arithmetic", [QUANTISED, INDEPENDENT])
def test_shorter_prompt_joins_only_where_its_rows_fit(arithmetic: Arithmetic) -> None:
    prompts = [Seen(0, 100), Seen(1, 60, n_room=61)]
    batch = next_batch(prompts, Turns(), arithmetic)
    joined = (Piece(0, 100), Piece(1, 60))
    assert batch.pieces == (joined[:1] if arithmetic is QUANTISED else joined)


@pytest.mark.parametrize(
    ("prompts", "pieces"),
    [
        pytest.param([Seen(0, 100, n_most=40)], [(0, 40)], id="leads"),
        pytest.param([Seen(0, 100), Seen(1, 90, n_most=40)], [(0, 100)], id="much-shorter-then"),
        pytest.param([Seen(0, 40), Seen(1, 90, n_most=45)], [(0, 40), (1, 45)], id="about-as-long-then"),
    ],
)
def test_pieces_end_where_they_must(prompts: list[Seen], pieces: list[tuple[int, int]]) -> None:
    batch = next_batch(prompts, Turns(), QUANTISED)
    assert [(piece.slot, piece.n) for piece in batch.pieces] == pieces


@pytest.mark.parametrize("arithmetic", [QUANTISED, INDEPENDENT])
def test_last_tokens_of_prompts_go_with_those_that_sample_where_rows_may(arithmetic: Arithmetic) -> None:
    batch = next_batch([Seen(0, 1), samples(1), Seen(2, 80), Seen(3, 1)], Turns(True), arithmetic)
    together = (Piece(0, 1), Piece(1, 1), Piece(3, 1))
    assert batch.pieces == (together if arithmetic is INDEPENDENT else together[1:2])


def test_what_another_one_has_sampled_is_computed_at_once_as_far_as_a_micro_batch_goes() -> None:
    beams = [samples(0), Seen(1, 5, prefilling=False), Seen(2, 90), samples(3)]
    batch = next_batch(beams, Turns(True), INDEPENDENT)
    assert batch.pieces == (Piece(0, 1), Piece(1, 5), Piece(3, 1))
    many = [Seen(slot, 20, prefilling=False) for slot in range(40)]
    batch = next_batch(many, Turns(True), INDEPENDENT)
    assert [piece.slot for piece in batch.pieces] == list(range(40))
    assert sum(piece.n for piece in batch.pieces) == MICRO_BATCH
    assert min(piece.n for piece in batch.pieces) == 1
