"""The engine's runner over a fake context, for tests without a model; asserts the rules of every call."""

from collections.abc import Sequence
from typing import cast

from tests.engine.llama.fake_context import KERNELS, N_VOCAB, Cells, FakeContext, Kernels, n_as_prompt, state_after

from afterword.engine.llama.arithmetic import QUANTISED, Arithmetic
from afterword.engine.llama.binding import LlamaContext
from afterword.engine.llama.checkpoints import State
from afterword.engine.llama.kv import KVSlots
from afterword.engine.llama.runner import Computed, LlamaRunner
from afterword.engine.llama.sequence import Saved, Span
from afterword.engine.llama.thread_count import ThreadCount


class FakeRunner:
    """`calls` has each call's (slot, tokens, rows), `copies` each copy's (source, target, tokens)."""

    def __init__(
        self,
        n_slots: int,
        n_vocab: int = N_VOCAB,
        *,
        capacity: int = 3000,
        can_cut: bool = True,
        arithmetic: Arithmetic = QUANTISED,
        kernels: Kernels | None = None,
        window: int | None = None,
    ) -> None:
        """`kernels`: others than those for which the arithmetic is meant."""
        self.n_slots = n_slots
        self.can_cut = can_cut
        self.calls: list[list[tuple[int, int, int]]] = []
        self.copies: list[tuple[int, int, int]] = []
        kernels = KERNELS[arithmetic] if kernels is None else kernels
        self._as_meant = kernels == KERNELS[arithmetic]
        self.context = FakeContext(n_slots + arithmetic.n_spare_slots, kernels, n_vocab, capacity, can_cut, window)
        self._inner = LlamaRunner(cast(LlamaContext, self.context), arithmetic, ThreadCount(1))

    @property
    def cells(self) -> list[Cells]:
        """What each slot of the scheduler really holds."""
        return self.context.cells[: self.n_slots]

    def forward(self, spans: Sequence[Span]) -> list[Computed]:
        ids = [span.sequence.slot_id for span in spans]
        assert spans, "a call has rows"
        assert len(set(ids)) == len(ids), "a slot has one span"
        guessed = [len(span.sequence.guess.tokens) for span in spans]
        assert all(0 < span.n <= span.sequence.n_pending + n for span, n in zip(spans, guessed, strict=True))
        computed = self._inner.forward(spans)
        assert [each.logits.shape[0] for each in computed] == [span.outputs.sum() for span in spans]
        self.calls.append([(i, span.n, self.context.rows[i]) for i, span in zip(ids, spans, strict=True)])
        return computed

    def copy(self, source: int, target: int, n: int, state: State | None = None) -> None:
        assert source != target
        assert 0 < n <= len(self.cells[source].tokens)
        assert self.can_cut or state is not None or n == len(self.cells[source].tokens)
        self.copies.append((source, target, n))
        self._inner.copy(source, target, n, state)
        assert len(self.cells[target].tokens) == n

    def truncate(self, slot: int, n: int, state: State | None = None) -> None:
        assert n <= len(self.cells[slot].tokens)
        self._inner.truncate(slot, n, state)

    def state(self, slot: int) -> State:
        assert not self.can_cut
        return self._inner.state(slot)

    def can_be_saved(self, slot: int) -> bool:
        return self._inner.can_be_saved(slot)

    def exchange(self, a: int, b: int, n_a: int, n_b: int) -> None:
        assert len(self.cells[a].tokens) >= n_a
        assert len(self.cells[b].tokens) >= n_b
        self._inner.exchange(a, b, n_a, n_b)

    def save(self, slot: int) -> Saved:
        return self._inner.save(slot)

    def load(self, slot: int, saved: Saved) -> None:
        self._inner.load(slot, saved)

    def check_records(self, kv: KVSlots) -> None:
        """Assert that the records say what the slots hold, and that exactly what is exact is recorded so.

        A slot on which nothing runs may hold more than is recorded: it is cut before it is used again.
        """
        for slot, cells in zip(kv, self.cells, strict=True):
            assert slot.tokens[: slot.n].tolist() == cells.tokens[: slot.n]
            assert not slot.running or slot.n == len(cells.tokens)
            # With kernels of another arithmetic nothing is promised.
            held = [bytes(checkpoint.state) for checkpoint in slot.checkpoints]
            assert held == [bytes(state_after(cells.first(checkpoint.n))) for checkpoint in slot.checkpoints]
            assert not self._as_meant or slot.n_exact == n_as_prompt(cells.ways[: slot.n])
        assert all(cells.tokens == [] for cells in self.context.cells[self.n_slots :]), "the spare slot stays empty"
