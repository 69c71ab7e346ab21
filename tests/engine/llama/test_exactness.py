"""What `arithmetic.py` builds on, checked on real weights: which cuts, moves and rows beside keep the bits."""

from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.engine.llama.harness import Harness, ask
from tests.models.engines import kept_tiny
from tests.models.tiny import FILE_TYPES, Tiny

from afterword.engine.llama.arithmetic import INDEPENDENT, Arithmetic
from afterword.engine.llama.binding import LlamaContext, LlamaModel
from afterword.engine.llama.caches import KV_TYPES, Attention, Caches
from afterword.engine.llama.kernels import Kernels
from afterword.engine.llama.kv import Slot
from afterword.engine.llama.runner import LlamaRunner
from afterword.engine.llama.sequence import Span
from afterword.engine.llama.thread_count import ThreadCount

N_CELLS = 1024
N_SLOTS = 4
"""Slots for sequences; the context has one more."""

KINDS = [
    *((weights, "f16") for weights in FILE_TYPES),
    *(pytest.param(("default", kv_type), marks=pytest.mark.model) for kv_type in KV_TYPES),
]
"""Weights, and what keys and values are kept as."""


@dataclass(frozen=True, slots=True)
class Opened:
    """A model's context, and what an engine would tell its runner."""

    context: LlamaContext
    arithmetic: Arithmetic


@pytest.fixture(scope="module", params=KINDS, ids="-".join)
def opened(request: pytest.FixtureRequest, built: Kernels, short_model: Path) -> Iterator[Opened]:
    """Five slots of one kind, computed by the project's kernels."""
    weights, kv_type = request.param
    model = LlamaModel(short_model if weights == "default" else kept_tiny(Tiny(weights)))
    context = LlamaContext(
        model,
        n_slots=N_SLOTS + 1,
        n_ctx_slot=N_CELLS,
        n_batch=512,
        n_threads=1,
        attention=Attention(True, kv_type, Caches(built)),
    )
    yield Opened(context, INDEPENDENT)
    context.close()
    model.close()


@pytest.fixture
def context(opened: Opened) -> LlamaContext:
    """The module's context with empty slots."""
    for slot in range(opened.context.n_slots):
        opened.context.truncate(slot, 0)
    return opened.context


@pytest.fixture
def runner(opened: Opened, context: LlamaContext) -> LlamaRunner:
    """A runner as an engine would have it, over the empty slots."""
    return LlamaRunner(context, opened.arithmetic, ThreadCount(1))


TOKENS, OTHERS = np.random.default_rng(0).integers(0, 256, (2, N_CELLS)).tolist()


def decode(
    context: LlamaContext, *pieces: tuple[int, int, list[int]], outputs: list[int] | None = None
) -> NDArray[np.float32]:
    """Decode (slot, start, tokens) pieces in one call; the logits after each token, or those asked for."""
    n = sum(len(tokens) for _, _, tokens in pieces)
    return context.decode(
        np.concatenate([np.array(tokens, dtype=np.int32) for _, _, tokens in pieces]),
        np.concatenate([np.arange(start, start + len(t), dtype=np.int32) for _, start, t in pieces]),
        np.concatenate([np.full(len(t), slot, dtype=np.int32) for slot, _, t in pieces]),
        np.ones(n, dtype=np.int8) if outputs is None else np.array(outputs, dtype=np.int8),
    )


def bits(logits: NDArray[np.float32]) -> list[bytes]:
    """A digest of each row."""
    return [blake2b(row.tobytes(), digest_size=16).digest() for row in logits]


def fill(context: LlamaContext, slot: int, cut: list[int], tokens: list[int]) -> list[bytes]:
    """Compute the beginning of `tokens` in pieces of the lengths `cut`; the bits of all rows."""
    start, found = 0, []
    for n in cut:
        found += bits(decode(context, (slot, start, tokens[start : start + n])))
        start += n
    return found


def hold(context: LlamaContext, slot: int, cut: list[int], tokens: list[int]) -> None:
    """The same without asking for logits, which takes most of the time with few layers."""
    start = 0
    for n in cut:
        decode(context, (slot, start, tokens[start : start + n]), outputs=[0] * n)
        start += n


@pytest.mark.parametrize(
    ("cut", "whole"),
    [
        pytest.param([100, 100], [200], id="halves"),
        pytest.param([2] * 40, [80], id="pairs"),
        pytest.param([1] * 80, [80], id="row-by-row"),
        pytest.param([1, 78, 1], [79, 1], id="single-ends"),
        pytest.param([3, 2, 5, 2, 7, 61], [80], id="odd-lengths"),
        pytest.param([63, 64, 65, 2], [194], id="around-64"),
        pytest.param([254, 2, 2, 42], [300], id="around-256"),
        pytest.param([510, 2, 2, 46], [280, 280], id="beyond-512"),
    ],
)
def test_cuts_change_nothing(context: LlamaContext, cut: list[int], whole: list[int]) -> None:
    assert fill(context, 0, cut, TOKENS) == fill(context, 1, whole, TOKENS)


@pytest.mark.parametrize("n_rows", [1, 2, 40])
@pytest.mark.parametrize("others", [[1], [2], [1, 2, 3]], ids=["next", "apart", "all"])
def test_pieces_have_the_same_bits_alone_and_beside_pieces(
    context: LlamaContext, others: list[int], n_rows: int
) -> None:
    hold(context, 0, [84], TOKENS)
    alone = bits(decode(context, (0, 84, TOKENS[84 : 84 + n_rows])))
    context.truncate(0, 84)
    for slot in others:
        hold(context, slot, [50, 10 * slot], OTHERS)
    pieces = [(slot, 50 + 10 * slot, OTHERS[300 : 300 + n_rows]) for slot in others]
    assert bits(decode(context, (0, 84, TOKENS[84 : 84 + n_rows]), *pieces))[:n_rows] == alone


def single(slot: int, n: int, token: int) -> Span:
    """The step of a sequence that holds n tokens on a slot and has just sampled one."""
    group, _ = Harness(1).add(ask((0,) * n))
    (sequence,) = group.sequences
    sequence.slot = Slot(slot, np.zeros(0, dtype=np.int32))
    sequence.n_computed, sequence.sampled, sequence.candidate.n_tokens = n, [token], 1
    return Span(sequence, n, 1, np.ones(1, dtype=np.int8))


def sampled(
    runner: LlamaRunner, context: LlamaContext, lengths: dict[int, int], n_steps: int
) -> dict[int, list[bytes]]:
    """Single rows behind the {slot: n} tokens of some slots, step by step together, and cut off again.

    Each slot's tokens are the same whichever others there are.
    """
    found: dict[int, list[bytes]] = {slot: [] for slot in lengths}
    for step in range(n_steps):
        spans = [single(slot, n + step, TOKENS[900 + 7 * slot + step]) for slot, n in lengths.items()]
        for computed in runner.forward(spans):
            held = computed.span.sequence.slot
            assert held is not None
            found[held.id] += bits(computed.logits)
    for slot, n in lengths.items():
        assert context.length(slot) == n + n_steps
        runner.truncate(slot, n)
    return found


LENGTHS = {0: 30, 1: 254, 2: 300, 3: 560}
"""What the slots hold below: a short one, one that grows past 256 cells, and one beyond 512."""


def test_single_rows_have_the_same_bits_alone_and_beside_others(runner: LlamaRunner, context: LlamaContext) -> None:
    alone: dict[int, list[bytes]] = {}
    for slot, n in LENGTHS.items():
        hold(context, slot, [n // 2, n - n // 2], TOKENS if slot % 2 == 0 else OTHERS)
        alone |= sampled(runner, context, {slot: n}, 4)  # the next slot is empty yet
    for slot, n in LENGTHS.items():
        assert sampled(runner, context, {slot: n}, 4)[slot] == alone[slot], "idle slots beside it"
    for together in ((0, 1), (0, 2), (1, 3), (2, 3), (0, 2, 3), (0, 1, 2, 3)):
        lengths = {slot: LENGTHS[slot] for slot in together}
        assert sampled(runner, context, lengths, 4) == {slot: alone[slot] for slot in together}


@pytest.mark.parametrize("slot", range(N_SLOTS))
def test_single_row_leaves_idle_slots_as_they_are(runner: LlamaRunner, context: LlamaContext, slot: int) -> None:
    others = [other for other in range(N_SLOTS) if other != slot]
    for other in others:
        hold(context, other, [60, 40], OTHERS)
    hold(context, slot, [50], TOKENS)
    before = [bytes(context.snapshot(other)) for other in others]
    expected = [goes_on(context, other, 100) for other in others]
    sampled(runner, context, {slot: 50}, 3)
    assert [context.length(other) for other in range(N_SLOTS + 1)] == [
        *(50 if other == slot else 100 for other in range(N_SLOTS)),
        0,
    ]
    assert [goes_on(context, other, 100) for other in others] == expected
    assert [bytes(context.snapshot(other)) for other in others] == before


def prompt_piece(slot: int, start: int, n: int, *, last: bool) -> Span:
    """n tokens of a prompt; `last` asks for the logits after its end only, else all are wanted."""
    group, _ = Harness(1).add(ask(tuple(TOKENS)))
    (sequence,) = group.sequences
    sequence.slot, sequence.n_computed = Slot(slot, np.zeros(0, dtype=np.int32)), start
    outputs = np.ones(n, dtype=np.int8)
    outputs[: n - 1] = not last
    return Span(sequence, start, n, outputs)


@pytest.mark.parametrize("n_rows", [1, 2, 3, 64])
@pytest.mark.parametrize("start", [0, 99, 255, 540])
def test_a_token_beside_pieces_of_other_prompts_has_the_bits_it_has_within_its_own(
    runner: LlamaRunner, context: LlamaContext, start: int, n_rows: int
) -> None:
    whole = fill(context, 0, [start // 2 + 3, start - start // 2 + 3], TOKENS)
    context.truncate(0, start)
    computed, _ = runner.forward([prompt_piece(0, start, 1, last=True), prompt_piece(1, 0, n_rows, last=True)])
    assert bits(computed.logits) == whole[start : start + 1]
    assert context.length(0) == start + 1
    # And what it leaves behind is what the prompt would have left.
    assert bits(decode(context, (0, start + 1, TOKENS[start + 1 : start + 6]))) == whole[start + 1 :]


def test_last_row_has_the_same_bits_however_many_are_put_out(runner: LlamaRunner, context: LlamaContext) -> None:
    (every,) = runner.forward([prompt_piece(0, 0, 50, last=False)])
    expected = bits(every.logits)[-1]
    context.truncate(0, 0)
    (last,) = runner.forward([prompt_piece(0, 0, 50, last=True)])
    assert bits(last.logits) == [expected]


def goes_on(context: LlamaContext, slot: int, n: int) -> list[bytes]:
    """The bits of the logits after two more tokens behind the n of a slot, which is left as it was."""
    found = bits(decode(context, (slot, n, TOKENS[n : n + 2])))
    context.truncate(slot, n)
    return found


@pytest.mark.parametrize("n", [100, 600], ids=["short", "long"])
def test_copies_keep_bits(runner: LlamaRunner, context: LlamaContext, n: int) -> None:
    hold(context, 1, [90, n - 90], TOKENS)
    expected = goes_on(context, 1, n)
    decode(context, (1, n, OTHERS[:50]))
    for target in (0, 2, 3):
        runner.copy(1, target, n)
    assert [goes_on(context, slot, n) for slot in (0, 2, 3)] == [expected] * 3


def test_exchanged_slots_keep_bits(runner: LlamaRunner, context: LlamaContext) -> None:
    hold(context, 0, [64, 36], TOKENS)
    hold(context, 2, [64, 64, 22], TOKENS)
    expected = goes_on(context, 0, 100), goes_on(context, 2, 150)
    runner.exchange(0, 2, 100, 150)
    assert (goes_on(context, 2, 100), goes_on(context, 0, 150)) == expected


def test_exchange_right_after_a_copy_moves_the_copy(runner: LlamaRunner, context: LlamaContext) -> None:
    hold(context, 0, [64, 336], TOKENS)
    hold(context, 2, [30], OTHERS)
    expected = goes_on(context, 0, 400)
    runner.copy(0, 2, 400)
    runner.exchange(2, 1, 400, 0)
    assert goes_on(context, 1, 400) == expected


def test_copy_from_a_slot_that_was_just_copied_to_takes_its_new_content(
    runner: LlamaRunner, context: LlamaContext
) -> None:
    hold(context, 0, [64, 36], OTHERS)
    hold(context, 2, [64, 336], TOKENS)
    context.truncate(2, 100)
    expected = goes_on(context, 2, 100)
    context.truncate(2, 0)
    hold(context, 2, [64, 336], TOKENS)
    runner.copy(0, 1, 50)
    runner.copy(2, 0, 300)
    runner.copy(0, 3, 100)
    assert goes_on(context, 3, 100) == expected
