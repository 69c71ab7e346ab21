"""Keeps the process of a model running: connects to it, sees that it ends or stands still, and starts it again.

Everything is called on one event loop, that of the first `start`.
"""

import asyncio
import time
from asyncio import Future, Task, Transport
from dataclasses import dataclass
from typing import Protocol, cast

import structlog
from typing_extensions import override

from afterword.engine.llama.llama_loading import LlamaSettings
from afterword.engine.worker import worker_messages
from afterword.engine.worker.process import Worker, write_line
from afterword.engine.worker.worker_messages import Add, Cancel, End, Logged, Ready, Step
from afterword.errors import ConfigurationError, EngineLost

log = structlog.get_logger("afterword.engine")

MOST_PAUSE = 60.0
"""Seconds between two starts of a process that always ends, at most."""


@dataclass(frozen=True, slots=True)
class Lost:
    """What an ended process has left."""

    n_failed: int
    """Prompts that failed with it."""
    n_waiting: int
    """Prompts that the next one gets."""
    finished_some: bool
    """It had finished a prompt: it did not only start and end."""


class Watched(Protocol):
    """Who has the prompts of the process."""

    @property
    def busy(self) -> bool:
        """The process was sent something that it has not ended."""
        ...

    def connected(self) -> None:
        """A process takes prompts."""
        ...

    def received(self, step: Step) -> None:
        """The process has said something."""
        ...

    def lost(self) -> Lost:
        """The process has ended, after `connected`."""
        ...

    def refuse(self, why: EngineLost) -> None:
        """No process can be started for now."""
        ...


class Supervisor:
    """One process at a time, and a pause between two that grows while they only start and end."""

    def __init__(
        self, settings: LlamaSettings, worker: Worker, ready: Ready, watched: Watched, step_seconds: float
    ) -> None:
        """`worker` has said `ready`; so must every one after it, in the same words."""
        self.problem: str | None = None
        """Why there is no process that takes prompts, as a sentence; None: there is one."""
        self.n_restarts = 0
        """Processes that were started in place of one that ended."""
        self._settings = settings
        self._worker = worker
        self._ready = ready
        self._watched = watched
        self._step_seconds = step_seconds
        self._connection: _Connection | None = None
        self._task: Task[None] | None = None
        self._refusal: EngineLost | None = None
        self._n_ends = 0
        """Processes in a row that only started and ended."""

    @property
    def pid(self) -> int:
        """Id of the process."""
        return self._worker.pid

    @property
    def connected(self) -> bool:
        """Whether the process takes prompts at this moment."""
        return self._connection is not None

    def start(self) -> None:
        """Begin to watch, on the event loop that runs. Calling it again changes nothing."""
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run())

    def check(self) -> None:
        """Raise `EngineLost` while a process cannot be started."""
        if self._refusal is not None:
            raise EngineLost(str(self._refusal), retry_after=self._refusal.retry_after)

    def send(self, message: Add | Cancel | End) -> None:
        """Send to the process, without waiting. Dropped while there is none."""
        if self._connection is not None:
            self._connection.transport.write(worker_messages.packed(message))

    async def aclose(self) -> None:
        """End the process. Calling it again changes nothing."""
        self._worker.kill()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        if self._connection is not None:
            self._connection.transport.abort()
            self._connection = None
        await asyncio.to_thread(self._worker.end)

    async def _run(self) -> None:
        while True:
            how = await self._watch()
            lost = self._watched.lost()
            if lost.finished_some:
                self._n_ends = 0
            self.problem = f"The model is loaded again: {how}."
            log.error(
                "the process of a model ended",
                path=str(self._settings.path),
                how=how,
                said=self._worker.last_words,
                prompts_failed=lost.n_failed,
                prompts_waiting=lost.n_waiting,
                again_in=pause(self._n_ends),
            )
            await self._start_again()

    async def _watch(self) -> str:
        """Connect to the process, and wait for its end; says how it ended."""
        loop = asyncio.get_running_loop()
        connection = _Connection(self._watched, loop.create_future())
        self._worker.connection.setblocking(False)
        await loop.create_unix_connection(lambda: connection, sock=self._worker.connection)
        self._connection = connection
        self.problem = self._refusal = None
        self._watched.connected()
        stands_still = await self._until_the_end(connection)
        self._connection = None
        how = await asyncio.to_thread(self._worker.end)
        return f"a step took more than {self._step_seconds:g} seconds (step_timeout)" if stands_still else how

    async def _until_the_end(self, connection: "_Connection") -> bool:
        """Wait for the end of the connection; True if the process stood still and was killed for that."""
        while True:
            busy, n_received = self._watched.busy, connection.n_received
            await asyncio.wait({connection.lost}, timeout=self._step_seconds)
            if connection.lost.done():
                return False
            if busy and self._watched.busy and connection.n_received == n_received:
                self._worker.kill()
                await connection.lost
                return True

    async def _start_again(self) -> None:
        """Start a process, and another one while that fails."""
        while True:
            await asyncio.sleep(pause(self._n_ends))
            self._n_ends += 1
            self.n_restarts += 1
            began = time.monotonic()
            try:
                await self._start()
            except (ConfigurationError, OSError) as error:
                again_in = pause(self._n_ends)
                self.problem = str(error).replace(str(self._settings.path), self._settings.path.name)
                self._refusal = EngineLost(
                    "The model's process ended and cannot be started again for now.", retry_after=max(1, int(again_in))
                )
                log.error("the process of a model cannot be started", detail=str(error), again_in=again_in)
                self._watched.refuse(self._refusal)
            else:
                seconds = round(time.monotonic() - began, 1)
                log.warning("the process of a model was started again", path=str(self._settings.path), seconds=seconds)
                return

    async def _start(self) -> None:
        self._worker = Worker(self._settings)
        ready = await asyncio.to_thread(self._worker.load)
        if ready != self._ready:
            self._worker.kill()
            await asyncio.to_thread(self._worker.end)
            raise ConfigurationError(
                f"The model file {self._settings.path} is not the one that the server was started with "
                f"({ready.fingerprint}, not {self._ready.fingerprint}): restart the server to serve it."
            )


def pause(n_ends: int) -> float:
    """Seconds before the next start, after so many processes in a row that only started and ended."""
    return 0.0 if n_ends == 0 else min(MOST_PAUSE, 2.0 ** (n_ends - 1))


class _Connection(asyncio.Protocol):
    """The socket of a process on the event loop."""

    def __init__(self, watched: Watched, lost: "Future[None]") -> None:
        self.transport: Transport
        self.lost = lost
        """Done at the end of the connection."""
        self.n_received = 0
        """Messages from the engine's thread."""
        self._watched = watched
        self._received = bytearray()

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(Transport, transport)

    @override
    def data_received(self, data: bytes) -> None:
        self._received += data
        for message in worker_messages.unpacked(self._received):
            if isinstance(message, Logged):
                write_line(message)
            else:
                self.n_received += 1
                self._watched.received(message)

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        if not self.lost.done():
            self.lost.set_result(None)
