"""Which tokens are computed next, for whom, and what follows: admit, plan, forward, commit.

No prefill or decode phase: a sequence has tokens and `n_computed`, and each step gives it some of the difference.
Steps that extend prompts and steps that sample take turns, so nobody's next token waits for more than one piece of
somebody's prompt. So do the oldest prompt and one of the shortest, so neither waits for the end of the other.
What is admitted finishes: its slot holds prompt and max_tokens by construction.

Knows no model library, no threads and no clock. Engine thread only.
"""

import numpy as np
from numpy.typing import NDArray

from afterword.engine.llama.admission import Admission
from afterword.engine.llama.commit import Committer
from afterword.engine.llama.company import SEVERAL
from afterword.engine.llama.gaps import close_gap
from afterword.engine.llama.kv import KVSlots
from afterword.engine.llama.runner import Runner
from afterword.engine.llama.sequence import Group, Sequence, Span
from afterword.engine.mailbox import Message
from afterword.engine.readers import Counters
from afterword.engine.sampling.logprobs import LogSoftmax
from afterword.errors import AfterwordError

PROMPT_BUDGET = 256
"""Prompt tokens in a step when nobody waits for a next token: llama.cpp's micro-batch. 512 take 5 to 7 % longer each:
the scores of attention leave the cache."""

SHARED_BUDGETS = (64, PROMPT_BUDGET)
"""Least and most prompt tokens in a step that delays somebody's next token. Fewer rows than 64 cost more each."""

PER_DELAYED = 1.5
"""Prompt tokens that take as long as one sampled token: what a step may have for each sequence it delays, so that
nobody waits for much more than twice as long as without prompts."""

HARDLY_LONGER = 2
"""Of prompts that are up to this many times as long as the shortest, the one leads whose slot lies best."""

STRETCH = 1.25
"""How much longer a call may become to finish prompts that are a little longer than the one that leads."""


class Scheduler:
    """The sequences of one engine and the order in which they are computed."""

    def __init__(self, kv: KVSlots, runner: Runner, log_softmax: LogSoftmax) -> None:
        self._kv = kv
        self._runner = runner
        self._admission = Admission(kv, runner)
        self._committer = Committer(kv, log_softmax)
        self._prompts_went_last = False
        self._oldest_led = False
        self.waiting: list[Sequence] = []
        self.running: list[Sequence] = []
        self.just_admitted: list[Sequence] = []
        """Sequences that got their slot in the latest step."""

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
        """Forget a group; its slots are free at once, with what they hold as prefix cache."""
        self.waiting = [s for s in self.waiting if s.group is not group]
        for sequence in [s for s in self.running if s.group is group]:
            self._release(sequence)

    def end(self, sequence: Sequence) -> None:
        """Forget one running sequence past its prompt; the rest of its group goes on."""
        assert not sequence.prefilling, "others may wait for its prompt"
        self._release(sequence)

    def step(self) -> list[Message]:
        """Compute one batch; the messages come in the order in which they happened."""
        self._admit()
        spans = self._plan()
        if not spans:
            return []
        self._committer.counters.steps += 1
        messages: list[Message] = []
        for computed in self._runner.forward(spans):
            if computed.span.sequence.slot is not None:  # its group may have failed within this step
                messages += self._settle(computed.span.sequence, self._committer.commit(computed))
        return messages

    def _admit(self) -> None:
        self.just_admitted = admitted = self._admission.admit(self.waiting, self.running)
        if admitted:
            entered = set(map(id, admitted))
            self.waiting = [s for s in self.waiting if id(s) not in entered]
            self.running += admitted
        close_gap(self._kv, self._runner, self.running)

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

    def _plan(self) -> list[Span]:
        """All next tokens at once, or a piece of some prompts: whichever did not have the last turn."""
        sampling = [s for s in self.running if not s.prefilling]
        prompts = [s for s in self.running if s.prefilling]
        if sampling and (self._prompts_went_last or not prompts):
            self._prompts_went_last = False
            return [_span(s, 1, 1) for s in sampling]
        if not prompts:
            return []
        self._prompts_went_last = True
        self._oldest_led = not self._oldest_led
        lead = prompts[0] if self._oldest_led else _quickest(prompts, sampling)
        budget = _shared_budget(len(sampling)) if sampling else PROMPT_BUDGET
        return self._prompt_spans(lead, [s for s in prompts if s is not lead], budget)

    def _prompt_spans(self, lead: Sequence, others: list[Sequence], budget: int) -> list[Span]:
        """As much of one prompt as the budget allows, beside pieces of others that are about as long.

        All pieces have the same number of rows, or llama.cpp would compute them apart; the shorter ones are filled up.
        """
        n = min(lead.n_pending, budget)
        if not self._kv.can_cut:
            return [_span(lead, n, n)]
        n_rows = max(SEVERAL, n)
        chosen, most = [lead], STRETCH * n_rows
        for other in others:
            longer = other.n_pending if n_rows < other.n_pending <= most else n_rows
            fits = (len(chosen) + 1) * longer <= budget
            if fits and 2 * other.n_pending >= longer and self._have_room([*chosen, other], longer):
                chosen.append(other)
                n_rows = longer
        return [_span(s, min(s.n_pending, n_rows), n_rows) for s in chosen]

    def _have_room(self, sequences: list[Sequence], n_rows: int) -> bool:
        """Whether that many rows fit behind what each slot holds, those to be thrown away included."""
        return all(s.n_computed + n_rows <= self._kv.capacity for s in sequences)


def _quickest(prompts: list[Sequence], sampling: list[Sequence]) -> Sequence:
    """One of the shortest prompts: the one nearest to slots that sample, or to where they will begin.

    llama.cpp computes each run of neighbours apart (gaps.py), so sequences that begin to sample here and there make
    every step longer until the prompts between them are read.
    """
    most = HARDLY_LONGER * min(s.n_pending for s in prompts)
    places = [s.slot_id for s in sampling] or [0]
    short = [s for s in prompts if s.n_pending <= most]
    return min(short, key=lambda s: (min(abs(s.slot_id - place) for place in places), s.n_pending))


def _shared_budget(n_delayed: int) -> int:
    least, most = SHARED_BUDGETS
    return min(max(least, int(PER_DELAYED * n_delayed)), most)


def _span(sequence: Sequence, n: int, n_rows: int) -> Span:
    return Span(sequence, sequence.n_computed, n, n_rows, _outputs(sequence, n))


def _outputs(sequence: Sequence, n: int) -> NDArray[np.int8]:
    """Which of the next n tokens' logits are needed: all that are scored, and the one to sample from."""
    outputs = np.zeros(n, dtype=np.int8)
    if sequence.scored:
        outputs[: max(0, sequence.n_prompt - 1 - sequence.n_computed)] = 1
    if n == sequence.n_pending and sequence.group.request.max_tokens > 0:
        outputs[-1] = 1
    return outputs
