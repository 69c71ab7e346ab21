"""Which tokens are computed next, for whom, and what follows: admit, plan, forward, commit.

No prefill or decode phase: a sequence has tokens and `n_computed`, and each step gives it some of the difference.
Steps that extend prompts and steps that sample take turns, so nobody's next token waits for more than one piece of
somebody's prompt. So do the two kinds of pieces, so a short prompt does not wait for the end of a long one.
What is admitted finishes: its stream holds prompt and max_tokens by construction.

Knows no model library, no threads and no clock. Engine thread only.
"""

import numpy as np
from numpy.typing import NDArray

from afterword.engine.llama.admission import Admission
from afterword.engine.llama.commit import Committer, Counters, Message
from afterword.engine.llama.gaps import close_gap
from afterword.engine.llama.kernels import ROW_MAX, TILE
from afterword.engine.llama.kv import KVStreams
from afterword.engine.llama.runner import Runner
from afterword.engine.llama.sequence import Group, Sequence, Span
from afterword.engine.sampling.logprobs import LogSoftmax
from afterword.errors import AfterwordError

PROMPT_BUDGET = 512
"""Prompt tokens in a step when nobody waits for a next token: llama.cpp's micro-batch."""

SHARED_BUDGET = 256
"""Prompt tokens in a step that delays somebody's next token."""


class Scheduler:
    """The sequences of one engine and the order in which they are computed."""

    def __init__(self, kv: KVStreams, runner: Runner, log_softmax: LogSoftmax) -> None:
        self._kv = kv
        self._runner = runner
        self._admission = Admission(kv, runner)
        self._committer = Committer(kv, log_softmax)
        self._prompts_went_last = False
        self._tiled_went_last = False
        self.waiting: list[Sequence] = []
        self.running: list[Sequence] = []
        self.just_admitted: list[Sequence] = []
        """Sequences that got their stream in the latest step."""

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
        """Forget a group; its streams are free at once, with what they hold as prefix cache."""
        self.waiting = [s for s in self.waiting if s.group is not group]
        for sequence in [s for s in self.running if s.group is group]:
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
            if computed.span.sequence.stream is not None:  # its group may have failed within this step
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
        """Free the streams of what has ended."""
        failed = any(isinstance(message, AfterwordError) for _, message in messages)
        if failed or (sequence.candidate.finished and sequence.group.request.max_tokens == 0):
            self.cancel(sequence.group)
        elif sequence.candidate.finished:
            self._release(sequence)
        return messages

    def _release(self, sequence: Sequence) -> None:
        assert sequence.stream is not None
        self.running.remove(sequence)
        self._kv.close(sequence.stream)
        sequence.stream = None

    def _plan(self) -> list[Span]:
        """All next tokens at once, or a piece of some prompts: whichever did not have the last turn."""
        sampling = [s for s in self.running if s.n_pending == 1]
        prompts = [s for s in self.running if s.n_pending > 1]
        if sampling and (self._prompts_went_last or not prompts):
            self._prompts_went_last = False
            return [_span(s, 1) for s in sampling]
        if not prompts:
            return []
        self._prompts_went_last = True
        return self._plan_prompts(prompts, SHARED_BUDGET if sampling else PROMPT_BUDGET)

    def _plan_prompts(self, prompts: list[Sequence], budget: int) -> list[Span]:
        """A piece of the oldest prompts of one kind; the kinds take turns, so a short prompt passes a long one."""
        tiled = [s for s in prompts if _n_tiled_left(s)]
        rows = [s for s in prompts if not _n_tiled_left(s)]
        self._tiled_went_last = bool(tiled) and (not rows or not self._tiled_went_last)
        return _tiled_spans(tiled, budget) if self._tiled_went_last else _row_spans(rows, budget)


def _n_tiled_left(sequence: Sequence) -> int:
    """Tokens that still go to the tiled kernel: a multiple of TILE, 0 once the tiled part is done."""
    assert sequence.stream is not None
    left = max(0, sequence.stream.tiled_end - sequence.n_computed)
    assert left % TILE == 0
    return left


def _tiled_spans(sequences: list[Sequence], budget: int) -> list[Span]:
    """Equal pieces of TILE or a multiple: unequal ones could be split below TILE by llama.cpp."""
    chosen = sequences[: budget // TILE]
    share = budget // len(chosen) // TILE * TILE
    n = min(share, *(_n_tiled_left(s) for s in chosen))
    return [_span(s, n) for s in chosen]


def _row_spans(sequences: list[Sequence], budget: int) -> list[Span]:
    """Equal pieces below TILE, as long as the oldest can use."""
    n = min(ROW_MAX, sequences[0].n_pending)
    chosen = [s for s in sequences if s.n_pending >= n][: budget // n]
    return [_span(s, n) for s in chosen]


def _span(sequence: Sequence, n: int) -> Span:
    return Span(sequence, sequence.n_computed, n, _outputs(sequence, n))


def _outputs(sequence: Sequence, n: int) -> NDArray[np.int8]:
    """Which of the next n tokens' logits are needed: all that are scored, and the one to sample from."""
    outputs = np.zeros(n, dtype=np.int8)
    if sequence.scored:
        outputs[: max(0, sequence.n_prompt - 1 - sequence.n_computed)] = 1
    if n == sequence.n_pending and sequence.group.request.max_tokens > 0:
        outputs[-1] = 1
    return outputs
