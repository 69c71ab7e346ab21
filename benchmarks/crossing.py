"""What it costs that a model is in a process of its own: processor time for each step, without any model.

    python -m benchmarks.crossing

The time of a thread is counted, not that of a clock, so that other work on the machine hardly matters. Seconds.
"""

import asyncio
import time
from asyncio import AbstractEventLoop
from collections.abc import Callable
from dataclasses import dataclass, field
from socket import socket, socketpair
from threading import Thread

from afterword.engine.events import Chunk
from afterword.engine.llama.engine_thread import Progress
from afterword.engine.llama.sequence import Message
from afterword.engine.mailbox import EventOrError, Mailbox, deliver
from afterword.engine.tracker import Counters
from afterword.engine.worker.child import Connection
from afterword.engine.worker.supervisor import _Connection
from afterword.engine.worker.worker_messages import Step, packed

STEPS, TIMES = 4000, 5


def microseconds(a_step: Callable[[], object]) -> float:
    """Of this thread, for a step; the least of several runs."""
    found = []
    for _ in range(TIMES):
        since = time.thread_time()
        for _ in range(STEPS):
            a_step()
        found.append((time.thread_time() - since) / STEPS * 1e6)
    return min(found)


def in_the_child(n: int) -> float:
    """The engine's thread tells of a step with a chunk for each of `n` prompts."""
    ours, theirs = socketpair()
    reader = Thread(target=drain, args=(ours,))
    reader.start()
    connection, counters = Connection(theirs), Counters(step_rows=(1,) * 10)
    connection.count(counters)
    told: list[Message] = [(number, chunk(number)) for number in range(n)]

    def a_step() -> None:
        counters.steps += 1
        connection.report(told, Progress(0, n, 0))

    found = microseconds(a_step)
    theirs.close()
    reader.join()
    ours.close()
    return found


def chunk(number: int) -> Chunk:
    """One token's, of which no object is another's."""
    return Chunk(0, f" the{number}", (), 500 + number)


def drain(connection: socket) -> None:
    """Read to the end."""
    while connection.recv(2**20):
        pass


@dataclass(frozen=True, slots=True)
class Readers:
    """Whoever reads the events in the server; they are taken at once."""

    loop: AbstractEventLoop
    n: int
    mailboxes: list[Mailbox] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.mailboxes.extend(Mailbox(self.loop, 1) for _ in range(self.n))

    def received(self, step: Step) -> None:
        """Post as the engine does."""
        items: dict[int, list[EventOrError]] = {}
        for number, what in step.told:
            assert isinstance(what, Chunk)
            items.setdefault(number, []).append(what)
        for number, of_prompt in items.items():
            self.mailboxes[number].post(of_prompt)
        self.take()

    def take(self) -> None:
        """Read what was posted."""
        for mailbox in self.mailboxes:
            list(mailbox.unread())


async def in_the_server(n: int) -> float:
    """The event loop takes a step's message, and posts what is in it."""
    readers = Readers(asyncio.get_running_loop(), n)
    connection = _Connection(readers, readers.loop.create_future())  # type: ignore[arg-type]
    data = packed(
        Step([(number, chunk(number)) for number in range(n)], Progress(0, n, 0), Counters(step_rows=(1,) * 10))
    )
    return microseconds(lambda: connection.data_received(data))


async def within_one_process(n: int) -> tuple[float, float]:
    """The same with the engine's thread in the server's process: what it takes of that thread, and of both."""
    readers = Readers(asyncio.get_running_loop(), n)
    told = [(mailbox, chunk(number)) for number, mailbox in enumerate(readers.mailboxes)]
    found = []
    for _ in range(TIMES):
        since = time.thread_time()
        for _ in range(STEPS):
            deliver(told)
        of_thread = time.thread_time() - since
        await asyncio.sleep(0)
        readers.take()
        found.append((of_thread / STEPS * 1e6, (time.thread_time() - since) / STEPS * 1e6))
    return min(found)


def main() -> None:
    """Print a row of the table in docs/reliability.md for one sequence and for sixteen."""
    for n in (1, 16):
        child, server = in_the_child(n), asyncio.run(in_the_server(n))
        of_thread, both = asyncio.run(within_one_process(n))
        print(f"| {n} | {of_thread:.0f} µs | {child:.0f} µs | {both:.0f} µs | {child + server:.0f} µs |")


if __name__ == "__main__":
    main()
