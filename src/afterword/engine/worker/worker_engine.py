"""The engine whose model is in a process of its own, as the rest of the server sees it.

Here are the prompts: which the process has, which of them it has begun with, and who is told what. `supervisor.py`
keeps the process running. Everything is called on the event loop, but `stats` on any thread.
"""

from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path

from typing_extensions import override

from afterword.engine.base import Engine, EngineStats, Generation
from afterword.engine.capacity import Capacity
from afterword.engine.engine_refusal import Refusal
from afterword.engine.events import Event
from afterword.engine.llama.binding import LlamaModel
from afterword.engine.llama.engine_thread import Progress
from afterword.engine.llama.llama_loading import LlamaSettings
from afterword.engine.llama.vocabulary import Vocabulary
from afterword.engine.mailbox import EventOrError, Mailbox, MailboxGeneration
from afterword.engine.request import GenerationRequest
from afterword.engine.tracker import Counters, RequestTracker
from afterword.engine.worker.process import Worker
from afterword.engine.worker.supervisor import Lost, Supervisor, Watched
from afterword.engine.worker.worker_messages import Add, Cancel, End, Ready, Step
from afterword.errors import ConfigurationError, EngineClosed, EngineLost
from afterword.tokens import Tokenizer

MOST_ENDS = 3
"""Processes that may end under a prompt that waits. One that ends them before it is begun must not end all others."""

NOTHING = Progress(0, 0, 0)

LOST = "The model's process ended while it worked on this request. It is started again: send the request once more."
LOST_WAITING = "The model's process ended again and again while this request waited: send it once more."


@dataclass(slots=True)
class _Prompt:
    """A prompt that has not ended."""

    request: GenerationRequest
    mailbox: Mailbox
    begun: bool = False
    """Its reader was told something: that it has started, at least."""
    n_ends: int = 0
    """Processes that have ended while it waited."""


def load_engine(settings: LlamaSettings, *, step_seconds: float) -> "WorkerEngine":
    """Start a process and wait until it has loaded the model; seconds to minutes.

    `step_seconds`: a step that takes longer is taken for one that never ends. Raises `ConfigurationError`, also where
    the file ends the process that reads it.
    """
    before = _mark(settings.path)
    worker = Worker(settings)
    try:
        ready = worker.load()
        # Only what another process has read whole is read in this one.
        _check_same(settings.path, before)
        tokenizer = Vocabulary(LlamaModel(settings.path, vocab_only=True))
        _check_same(settings.path, before)
    except BaseException:
        worker.kill()
        worker.end()
        raise
    return WorkerEngine(settings, worker, ready, tokenizer, step_seconds=step_seconds)


def _mark(path: Path) -> tuple[int, int, int] | None:
    """What changes with a file: which one it is, its size, its time. None: it cannot be seen."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns


def _check_same(path: Path, mark: tuple[int, int, int] | None) -> None:
    if _mark(path) != mark:
        raise ConfigurationError(f"The model file {path} has changed while it was loaded: start again.")


class WorkerEngine(Engine, Watched):
    """An engine over a process that may end at any moment and is then started again."""

    # An attribute here: the protocol's property only asks for something to read.
    fingerprint: str = ""

    def __init__(
        self, settings: LlamaSettings, worker: Worker, ready: Ready, tokenizer: Tokenizer, *, step_seconds: float
    ) -> None:
        """`worker` has loaded the model and said `ready`."""
        self.tokenizer = tokenizer
        self.capabilities = ready.capabilities
        self.fingerprint = ready.fingerprint
        self._tracker = RequestTracker(Capacity(ready.capabilities.n_slots, settings.max_waiting), Counters())
        self._supervisor = Supervisor(settings, worker, ready, self, step_seconds)
        self._numbers = count()
        self._prompts: dict[int, _Prompt] = {}
        self._n_sent = 0
        """Sequences that the present process was sent."""
        self._progress = NOTHING
        """How far the present process is."""
        self._counted = Counters()
        """What it has counted."""
        self._counted_before = Counters()
        """What the processes before it have."""
        self._finished_some = False
        """The present process has finished a prompt."""

    @property
    def pid(self) -> int:
        """Id of the present process."""
        return self._supervisor.pid

    @override
    def start(self) -> None:
        self._supervisor.start()

    @override
    def generate(self, request: GenerationRequest) -> Generation:
        self.start()
        self._supervisor.check()
        mailbox = self._tracker.add(request.n_candidates, request.n_sequences)
        number = next(self._numbers)
        prompt = self._prompts[number] = _Prompt(request, mailbox)
        if self._supervisor.connected:
            self._send(number, prompt)
        return MailboxGeneration(
            mailbox,
            on_close=lambda: self._cancel(number),
            on_end=lambda index: self._supervisor.send(End(number, index)),
        )

    @override
    def check_capacity(self, n_sequences: int) -> None:
        self._tracker.capacity.check(n_sequences)

    @override
    def stats(self) -> EngineStats:
        self._tracker.counters = self._counted_before.plus(self._counted)
        stats = self._tracker.stats(self._progress.n_running, self._progress.n_idle)
        problem = self._supervisor.problem
        if problem is not None and stats.state == "ready":
            stats = replace(stats, state="loading", problem=problem)
        return replace(stats, restarts=self._supervisor.n_restarts)

    @override
    async def aclose(self) -> None:
        """Cancel everything and end the process. Calling it again changes nothing."""
        self._tracker.end("closed", EngineClosed())
        await self._supervisor.aclose()

    @override
    @property
    def busy(self) -> bool:
        return self._progress.n_ended < self._n_sent

    @override
    def connected(self) -> None:
        """Send the new process what waits."""
        for number, prompt in self._prompts.items():
            self._send(number, prompt)

    @override
    def received(self, step: Step) -> None:
        self._advance(step.progress, step.counters)
        self._post(step.told)

    @override
    def lost(self) -> Lost:
        """Fail what the process had begun with, and keep what waits for the next one."""
        n_before = len(self._prompts)
        for number, prompt in list(self._prompts.items()):
            prompt.n_ends += 1
            if prompt.begun:
                self._fail(number, EngineLost(LOST))
            elif prompt.n_ends >= MOST_ENDS:
                self._fail(number, EngineLost(LOST_WAITING))
        n_kept = sum(prompt.request.n_sequences for prompt in self._prompts.values())
        self._tracker.remove(self._n_sent - self._progress.n_ended - n_kept)
        self._n_sent, self._progress = 0, NOTHING
        self._counted_before, self._counted = self._counted_before.plus(self._counted), Counters()
        finished, self._finished_some = self._finished_some, False
        return Lost(n_before - len(self._prompts), len(self._prompts), finished)

    @override
    def refuse(self, why: EngineLost) -> None:
        for number, prompt in list(self._prompts.items()):
            self._fail(number, why)
            self._tracker.remove(prompt.request.n_sequences)

    def _send(self, number: int, prompt: _Prompt) -> None:
        self._n_sent += prompt.request.n_sequences
        self._supervisor.send(Add(number, prompt.request))

    def _cancel(self, number: int) -> None:
        prompt = self._prompts.pop(number, None)
        if prompt is None:
            return
        if self._supervisor.connected:
            self._supervisor.send(Cancel(number))
        else:
            self._counted_before.cancelled += prompt.request.n_sequences
            self._tracker.remove(prompt.request.n_sequences)

    def _fail(self, number: int, error: EngineLost) -> None:
        self._prompts.pop(number).mailbox.post([error])

    def _advance(self, progress: Progress, counters: Counters) -> None:
        """Take over the process's figures; before the readers hear of what has ended."""
        self._counted = counters
        if progress.n_ended > self._progress.n_ended:
            self._tracker.remove(progress.n_ended - self._progress.n_ended)
        self._progress = progress
        for seconds in progress.waited:
            self._tracker.capacity.note_wait(seconds)

    def _post(self, told: list[tuple[int, Event | Refusal]]) -> None:
        items: dict[int, list[EventOrError]] = {}
        for number, what in told:
            items.setdefault(number, []).append(what.error() if isinstance(what, Refusal) else what)
        for number, of_prompt in items.items():
            prompt = self._prompts.get(number)
            if prompt is None:
                continue
            prompt.begun = True
            prompt.mailbox.post(of_prompt)
            if prompt.mailbox.is_complete:
                del self._prompts[number]
                self._finished_some = True
