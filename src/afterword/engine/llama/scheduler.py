"""A step of the engine: admit, close a gap, decide, forward, commit.

There is no prefill or decode phase: a sequence has tokens and `n_computed`, and each step computes some of the
difference. A slot is large enough for prompt and max_tokens by construction; a sequence may be made to wait in between,
so that another gets its turn, and then goes on where it was.

Knows no model library, no threads and no clock. Engine thread only.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from afterword.engine.events import Started
from afterword.engine.llama.admission import Admission
from afterword.engine.llama.arithmetic import Arithmetic, best_move, is_worth_moving
from afterword.engine.llama.commit import Committer
from afterword.engine.llama.drafting import Drafting
from afterword.engine.llama.drafts import NO_GUESS
from afterword.engine.llama.kv import KVSlots, common_prefix
from afterword.engine.llama.policy import Policy, Turns, next_batch
from afterword.engine.llama.reading_order import ReadingOrder
from afterword.engine.llama.runner import Computed, NotComputed, Runner, Uncomputed
from afterword.engine.llama.sequence import Group, Message, Sequence, Span
from afterword.engine.sampling.logprobs import LogSoftmax
from afterword.engine.tracker import Counters
from afterword.errors import AfterwordError
from afterword.fields.bans import NO_BANS

STATES_TO_GO_BACK = 8
"""Tokens after which the state of a sequence that may go back is kept, where memory cannot be cut."""

TOKENS_A_ROW = 64
"""Tokens that are copied to another slot in the time of one more row."""

MOST_REFUSED = 4
"""Calls that llama.cpp may refuse in a row. After more it computes nothing any more, and a new process may."""


class Scheduler:
    """The sequences of one engine, computed in the order that its policy decides."""

    def __init__(
        self,
        kv: KVSlots,
        runner: Runner,
        log_softmax: LogSoftmax,
        arithmetic: Arithmetic,
        policy: Policy = next_batch,
        *,
        drafts: bool = False,
    ) -> None:
        """`arithmetic`: the runner's. `drafts`: compute guesses, where their rows have the numbers of lone ones."""
        self._kv = kv
        self._runner = runner
        self._arithmetic = arithmetic
        self._policy = policy
        self._turns = Turns()
        self._reading = ReadingOrder()
        self._admission = Admission(kv, runner)
        self._committer = Committer(kv, log_softmax, arithmetic)
        self._can_compute_again = kv.can_cut and arithmetic.sampled_equals_prompt and not arithmetic.prompts_alone
        """Whether sampled tokens may be computed several at once, with the same numbers."""
        self._drafting = Drafting() if drafts and self._can_compute_again else None
        self._n_refused = 0
        """Calls in a row that llama.cpp has refused."""
        self._next_swap = 0
        """The step before which none makes room for another."""
        self.running: list[Sequence] = []
        """In the order in which they were admitted."""
        self.just_admitted: list[Sequence] = []
        """Sequences that got their first slot in the latest step."""
        self.now = 0.0
        """When the step begins, on the clock of `Group.queued_at`; the caller sets it."""

    @property
    def counters(self) -> Counters:
        """Totals since the start."""
        return self._committer.counters

    @property
    def n_waiting(self) -> int:
        """Sequences without a slot."""
        return self._admission.n_waiting

    @property
    def idle(self) -> bool:
        """Whether there is nothing to do."""
        return self.n_waiting == 0 and not self.running

    def add(self, group: Group) -> None:
        """Queue all candidates of a group."""
        if self._drafting is not None:
            self._drafting.begin(group)
        self._admission.join(group)

    def cancel(self, group: Group) -> None:
        """Drop a group; its slots are free at once, and what they hold stays as prefix cache."""
        self._admission.leave(group)
        for sequence in [s for s in self.running if s.group is group]:
            self._release(sequence)

    def end(self, sequence: Sequence) -> None:
        """Drop one sequence with its team, wherever they are; the rest of its group goes on."""
        assert sequence.group.prompt_done, "others wait for its prompt"
        for member in sequence.together:
            if member.slot is None:
                self._admission.drop(member)
            else:
                self._release(member)

    def admit(self) -> list[Message]:
        """Give slots to sequences that wait; before each step. The messages say which prompts wait no more."""
        admitted = self._admission.admit(self.running)
        self.running += admitted
        n_steps = self.counters.steps
        # A slot that is free may lack the cells.
        if self.n_waiting > 0 and (self._kv.n_free == 0 or self._kv.shared_out) and n_steps >= self._next_swap:
            swap = self._admission.swap(self.running)
            if swap is not None:
                self.running.remove(swap.left)
                self.running.append(swap.entered)
                admitted.append(swap.entered)
                self._next_swap = n_steps + swap.n_steps
        self.just_admitted = [s for s in admitted if not s.went_on]
        for sequence in admitted:
            if sequence.group.admitted_at is None:
                sequence.group.admitted_at = self.now
        return [(s.group.address, Started()) for s in self.just_admitted if s.group.leader is s]

    def step(self) -> list[Message]:
        """Compute one batch of what was admitted; the messages come in the order in which they happened."""
        self._close_gap()
        awake = [s for s in self.running if not s.rests]
        batch = self._policy(self._reading.in_turn(awake), self._turns, self._arithmetic)
        self._turns = batch.turns
        if not batch.pieces:
            return []
        by_slot = {s.slot_id: s for s in self.running}
        pieces = batch.pieces
        if self._drafting is not None:
            pieces = self._drafting.lengthened(pieces, by_slot)
        self._committer.counters.add_step(sum(piece.n for piece in pieces))
        self._reading.note(by_slot[piece.slot] for piece in pieces)
        messages: list[Message] = []
        for result in self._forward([_span(by_slot[piece.slot], piece.n) for piece in pieces]):
            sequence = result.span.sequence
            if sequence.slot is not None:
                told = self._committer.commit(result)
                self._drop_guess(sequence, result)
                messages += self._settle(sequence, told)
                self._keep_state(sequence)
            else:
                # Its group failed within this step, after the slot had been given more tokens than are recorded.
                slot_id = next(slot_id for slot_id, held_it in by_slot.items() if held_it is sequence)
                self._kv.drop_unrecorded(self._kv.slot(slot_id))
        self._copy()
        for sequence in self.running:
            if sequence.n_pending <= 0 and not sequence.rests:
                self._go_back(sequence)
        return messages

    def _forward(self, spans: list[Span]) -> Iterator[Computed | Uncomputed]:
        """Compute spans; one by one if they cannot be computed together, so that who cannot be computed fails alone.

        Each result must be taken before the next. Raises `NotComputed` if llama.cpp has refused too often in a row.
        """
        try:
            computed = self._runner.forward(spans)
        except NotComputed as refusal:
            self._n_refused += 1
            if self._n_refused > MOST_REFUSED:
                raise
            for span in spans:
                slot = span.sequence.slot
                # Without a slot: its group has just failed.
                if slot is not None and (len(spans) == 1 or slot.id in refusal.lost):
                    yield Uncomputed(span, refusal)
                elif slot is not None:
                    yield from self._forward([span])
        else:
            self._n_refused = 0
            yield from computed

    def _close_gap(self) -> None:
        """Move one sequence next to the others if that pays; once a step, so gaps close one by one."""
        by_slot = {s.slot_id: s for s in self.running}
        move = best_move(sorted(by_slot))
        if move is None:
            return
        source, target = self._kv.slot(move.source), self._kv.slot(move.target)
        sequence = by_slot[source.id]
        n_moved = source.n + target.n
        # What is moved is meanwhile outside of the slots.
        can_move = all(self._runner.can_be_saved(slot.id) for slot in (source, target)) and (
            n_moved <= self._admission.n_outside or not self._kv.shared_out
        )
        if can_move and is_worth_moving(n_moved, sequence.n_to_sample):
            self._runner.exchange(source.id, target.id, source.n, target.n)
            self._kv.exchange(source, target)
            sequence.slot = target

    def _drop_guess(self, sequence: Sequence, result: Computed | Uncomputed) -> None:
        """Cut off what was computed for a guess and was not sampled."""
        slot, guess, span = sequence.slot, sequence.guess, result.span
        sequence.guess = NO_GUESS
        if guess is NO_GUESS or isinstance(result, Uncomputed):
            return
        assert self._drafting is not None
        assert slot is not None
        if slot.n < span.start + span.n:
            self._runner.truncate(slot.id, slot.n)
        # Fewer if its group has failed.
        if slot.n > span.start:
            self._drafting.note(guess, slot.n - span.start - 1)

    def _keep_state(self, sequence: Sequence) -> None:
        """Keep the state of a sequence that goes on, if it is to be kept here."""
        slot = sequence.slot
        if slot is None:
            return
        may_go_back = sequence.group.request.bans != NO_BANS and not sequence.prefilling
        if may_go_back and self._kv.n_behind(slot) >= STATES_TO_GO_BACK:
            # Of those among its own tokens, the one that it would go back to now, and later ones.
            self._kv.forget(slot, sequence.n_prompt, sequence.n_tokens - sequence.candidate.n_held - 1)
            self._kv.keep(slot, self._runner.state(slot.id))
        elif self._kv.is_due(slot, sequence.places):
            self._kv.keep(slot, self._runner.state(slot.id))

    def _go_back(self, sequence: Sequence) -> None:
        """Have a slot lose all but what its sequence has, and of that what must be computed again to sample.

        Those are the last token, and where memory cannot be cut all tokens from an earlier state on.
        """
        slot = sequence.slot
        assert slot is not None
        reuse = self._kv.reuse(slot, sequence.n_tokens - 1)
        self._runner.truncate(slot.id, reuse.n, reuse.state)
        slot.cut(reuse.n)
        sequence.n_computed = reuse.n

    def _copy(self) -> None:
        """Have each sequence that goes on from what another one has computed hold the same.

        Of the same beginning little need be computed again, which takes less than a copy; where numbers allow it.
        """
        copies = [(s, s.copy_of) for s in self.running if s.copy_of is not None]
        # Copies from one slot in a row take less.
        for sequence, source in sorted(copies, key=lambda pair: pair[1].slot_id):
            assert sequence.slot is not None
            assert source.slot is not None
            n, sequence.copy_of = source.n_computed, None
            n_common = common_prefix(source.slot.tokens[:n], sequence.slot.tokens[: sequence.slot.n])
            if self._can_compute_again and n_common >= sequence.n_prompt and (n - n_common) * TOKENS_A_ROW <= n:
                self._runner.truncate(sequence.slot.id, n_common)
                sequence.slot.cut(n_common)
                sequence.n_computed = n_common
                sequence.sampled = [*source.slot.tokens[n_common:n].tolist(), *sequence.sampled]
            else:
                self._runner.copy(source.slot.id, sequence.slot.id, n)
                self._kv.copy(source.slot, sequence.slot, n)
                sequence.n_computed = n

    def _settle(self, sequence: Sequence, messages: list[Message]) -> list[Message]:
        """Free the slots of what has ended."""
        failed = any(isinstance(message, AfterwordError) for _, message in messages)
        if failed or (sequence.candidate.finished and sequence.group.request.max_tokens == 0):
            self.cancel(sequence.group)
        elif sequence.candidate.finished:
            for member in sequence.together:
                self._release(member)
        return messages

    def _release(self, sequence: Sequence) -> None:
        self.running.remove(sequence)
        self._admission.give_back(sequence)


def _span(sequence: Sequence, n: int) -> Span:
    return Span(sequence, sequence.n_computed, n, _outputs(sequence, n))


def _outputs(sequence: Sequence, n: int) -> NDArray[np.int8]:
    """1 for those of the next n tokens whose logits are needed: all that are scored, and those to sample from."""
    outputs = np.zeros(n, dtype=np.int8)
    if sequence.scored:
        first, end = (max(0, row - sequence.n_computed) for row in (sequence.demand.score_from, sequence.demand.n_rows))
        outputs[first:end] = 1
    if n >= sequence.n_pending and sequence.group.request.max_tokens > 0:
        outputs[sequence.n_pending - 1 :] = 1
    return outputs
