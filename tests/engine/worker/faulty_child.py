"""The process of a model, in which some tokens at the end of a prompt are faults. Run as `child.py` is."""

import os
import signal
import time
from collections.abc import Callable
from functools import partial

from afterword.engine.llama.engine_thread import EngineThread
from afterword.engine.llama.scheduler import Scheduler
from afterword.engine.llama.sequence import Group, Message, Sequence
from afterword.engine.sampling.masks import Mask
from afterword.engine.worker.child import main


def _raise(error: BaseException) -> None:
    raise error


FAULTS: dict[int, Callable[[], object]] = {
    ord("A"): os.abort,
    ord("B"): partial(signal.raise_signal, signal.SIGBUS),
    ord("K"): partial(signal.raise_signal, signal.SIGKILL),
    ord("S"): partial(signal.raise_signal, signal.SIGSEGV),
    ord("M"): partial(_raise, MemoryError()),
    ord("E"): partial(_raise, SystemExit(3)),
    ord("H"): partial(time.sleep, 3600),
    ord("W"): partial(time.sleep, 0.2),
}
"""What happens in each step after a sequence's second token, or in the first step with none to sample."""

BEFORE = ord("Q")
"""Ends the process before the prompt has a slot."""


def _step(self: Scheduler) -> list[Message]:
    for sequence in self.running:
        fault = FAULTS.get(sequence.group.request.prompt[-1])
        if fault is not None and sequence.candidate.n_tokens >= min(2, sequence.group.request.max_tokens):
            fault()
    return step(self)


def _sequences_of(self: EngineThread, group: Group, masks: list[Mask]) -> list[Sequence]:
    if group.request.prompt[-1] == BEFORE:
        signal.raise_signal(signal.SIGKILL)
    return sequences_of(self, group, masks)


step, sequences_of = Scheduler.step, EngineThread._sequences_of

if __name__ == "__main__":
    Scheduler.step, EngineThread._sequences_of = _step, _sequences_of  # type: ignore[method-assign]
    main()
