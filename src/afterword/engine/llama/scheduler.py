"""A step of the engine: admit, close a gap, decide, forward, commit.

There is no prefill or decode phase: a sequence has tokens and `n_computed`, and each step computes some of the
difference. Nothing is preempted: a slot is large enough for prompt and max_tokens by construction.

Knows no model library, no threads and no clock. Engine thread only.
"""

import numpy as np
from numpy.typing import NDArray

from afterword.engine.events import Started
from afterword.engine.llama.admission import Admission
from afterword.engine.llama.arithmetic import Arithmetic, best_move, is_worth_moving
from afterword.engine.llama.commit import Committer
from afterword.engine.llama.kv import KVSlots
from afterword.engine.llama.policy import Policy, Turns, next_batch
from afterword.engine.llama.runner import Runner
from afterword.engine.llama.sequence import Group, Sequence, Span
from afterword.engine.mailbox import Message
from afterword.engine.sampling.logprobs import LogSoftmax
from afterword.engine.tracker import Counters
from afterword.errors import AfterwordError


class Scheduler:
    """The sequences of one engine, computed in the order that its policy decides."""

    def __init__(
        self,
        kv: KVSlots,
        runner: Runner,
        log_softmax: LogSoftmax,
        arithmetic: Arithmetic,
        policy: Policy = next_batch,
    ) -> None:
        """`arithmetic`: the runner's."""
        self._kv = kv
        self._runner = runner
        self._arithmetic = arithmetic
        self._policy = policy
        self._turns = Turns()
        self._admission = Admission(kv, runner)
        self._committer = Committer(kv, log_softmax, arithmetic)
        self.waiting: list[Sequence] = []
        self.running: list[Sequence] = []
        """In the order in which they were admitted."""
        self.just_admitted: list[Sequence] = []
        """Sequences admitted in the latest step."""

    @property
    def counters(self) -> Counters:
        """Totals since the start."""
        return self._committer.counters

    @property
    def idle(self) -> bool:
        """Whether there is nothing to do."""
        return not self.waiting and not self.running

    def add(self, group: Group) -> None:
        """Queue all candidates of a group."""
        self.waiting.extend(group.sequences)

    def cancel(self, group: Group) -> None:
        """Drop a group; its slots are free at once, and what they hold stays as prefix cache."""
        self.waiting = [s for s in self.waiting if s.group is not group]
        for sequence in [s for s in self.running if s.group is group]:
            self._release(sequence)

    def end(self, sequence: Sequence) -> None:
        """Drop one running sequence past its prompt; the rest of its group goes on."""
        assert not sequence.prefilling, "others may wait for its prompt"
        self._release(sequence)

    def step(self) -> list[Message]:
        """Compute one batch; the messages come in the order in which they happened."""
        self._admit()
        self._close_gap()
        batch = self._policy(self.running, self._turns, self._arithmetic)
        self._turns = batch.turns
        messages: list[Message] = [(s.group.mailbox, Started()) for s in self.just_admitted if s.group.leader is s]
        if not batch.pieces:
            return messages
        by_slot = {s.slot_id: s for s in self.running}
        self._committer.counters.add_step(sum(piece.n for piece in batch.pieces))
        for computed in self._runner.forward([_span(by_slot[piece.slot], piece.n) for piece in batch.pieces]):
            sequence = computed.span.sequence
            if sequence.slot is not None:
                messages += self._settle(sequence, self._committer.commit(computed))
            else:
                # Its group failed within this step, after the slot had been given more tokens than are recorded.
                slot_id = next(slot_id for slot_id, held_it in by_slot.items() if held_it is sequence)
                self._kv.drop_unrecorded(self._kv.slot(slot_id))
        return messages

    def _admit(self) -> None:
        self.just_admitted = admitted = self._admission.admit(self.waiting, self.running)
        if admitted:
            entered = set(map(id, admitted))
            self.waiting = [s for s in self.waiting if id(s) not in entered]
            self.running += admitted

    def _close_gap(self) -> None:
        """Move one sequence next to the others if that pays; once a step, so gaps close one by one."""
        by_slot = {s.slot_id: s for s in self.running}
        move = best_move(sorted(by_slot))
        if move is None:
            return
        source, target = self._kv.slot(move.source), self._kv.slot(move.target)
        sequence = by_slot[source.id]
        if is_worth_moving(source.n + target.n, sequence.n_to_sample):
            self._runner.exchange(source.id, target.id, source.n, target.n)
            self._kv.exchange(source, target)
            sequence.slot = target

    def _settle(self, sequence: Sequence, messages: list[Message]) -> list[Message]:
        """Free the slots of what has ended."""
        failed = any(isinstance(message, AfterwordError) for _, message in messages)
        if failed or (sequence.candidate.finished and sequence.group.request.max_tokens == 0):
            self.cancel(sequence.group)
        elif sequence.candidate.finished:
            self._release(sequence)
        return messages

    def _release(self, sequence: Sequence) -> None:
        assert sequence.slot is not None
        self.running.remove(sequence)
        self._kv.close(sequence.slot)
        sequence.slot = None


def _span(sequence: Sequence, n: int) -> Span:
    return Span(sequence, sequence.n_computed, n, _outputs(sequence, n))


def _outputs(sequence: Sequence, n: int) -> NDArray[np.int8]:
    """1 for those of the next n tokens whose logits are needed: all that are scored, and the one to sample from."""
    outputs = np.zeros(n, dtype=np.int8)
    if sequence.scored:
        outputs[: max(0, sequence.n_prompt - 1 - sequence.n_computed)] = 1
    if n == sequence.n_pending and sequence.group.request.max_tokens > 0:
        outputs[-1] = 1
    return outputs
