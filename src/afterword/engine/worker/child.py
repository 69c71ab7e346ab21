"""The process of a model: it loads the file, tells the server so, and computes what it is sent.

Started by `process.py`, with one end of a socket pair as its stdin. It ends when the other end is closed, whatever it
is doing, so it never outlives the server.
"""

import os
import select
import signal
import sys
import traceback
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from socket import socket
from threading import Lock, Thread
from typing import Any

import structlog
from typing_extensions import override

from afterword.engine.engine_refusal import refusal
from afterword.engine.llama.aborting import say_why_it_aborts
from afterword.engine.llama.binding import LIBRARY, LlamaModel
from afterword.engine.llama.engine_thread import EngineThread, Outlet, Progress
from afterword.engine.llama.llama_loading import LlamaSettings, load_model
from afterword.engine.llama.sequence import Message
from afterword.engine.llama.vocabulary import Vocabulary
from afterword.engine.tracker import Counters, public_error
from afterword.engine.worker import worker_messages
from afterword.engine.worker.worker_messages import (
    Add,
    Cancel,
    Checked,
    CheckVocabulary,
    End,
    Logged,
    Ready,
    Refused,
    Step,
)
from afterword.errors import AfterwordError, ConfigurationError

FAILED = 1
"""Exit code of a process whose engine broke."""

OOM_SCORE = Path("/proc/self/oom_score_adj")
MORE_LIKELY = "500"
"""A system without memory ends this process before the one that has the clients."""


class Connection(Outlet):
    """The server's end, as the engine's thread and the log see it."""

    def __init__(self, connection: socket) -> None:
        self._connection = connection
        self._sending = Lock()
        self._counters: Counters

    def say(self, message: object) -> None:
        """Send a message; waits while the server does not read. Ends the process where there is nobody to say it to."""
        data = worker_messages.packed(message)
        try:
            with self._sending:
                self._connection.sendall(data)
        except OSError:
            os._exit(0)

    def count(self, counters: Counters) -> None:
        """Send the figures of `counters` along; before the thread starts."""
        self._counters = counters

    @override
    def report(self, told: list[Message], progress: Progress) -> None:
        numbered = [(number, refusal(it) if isinstance(it, AfterwordError) else it) for number, it in told]
        self.say(Step(numbered, progress, self._counters))

    @override
    def end(self, error: BaseException | None) -> None:
        """Log why, and end the process: nothing of it can be used any more."""
        try:
            if error is not None:
                public_error(error, "The engine failed.")
        finally:
            os._exit(FAILED)

    def log(self, _logger: object, level: str, line: structlog.typing.EventDict) -> Any:
        """A processor of structlog that has the server write the line."""
        self.say(Logged(level, dict(line)))
        raise structlog.DropEvent


def main() -> None:
    """Serve the socket on stdin until it is closed."""
    # They go to the whole group or service. The server ends this process when it has done with it.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    with suppress(OSError):
        OOM_SCORE.write_text(MORE_LIKELY)
    connection = socket(fileno=sys.stdin.fileno())
    server = Connection(connection)
    structlog.configure(processors=[structlog.processors.format_exc_info, server.log])
    asked: LlamaSettings | CheckVocabulary = worker_messages.read(connection)
    engine: Future[EngineThread] = Future()
    # Reads also while the model is loaded: the server may end before that is done.
    Thread(target=_follow, args=(connection, engine), name="afterword-commands", daemon=True).start()
    try:
        if isinstance(asked, CheckVocabulary):
            say_why_it_aborts(LIBRARY)
            Vocabulary(LlamaModel(asked.path, vocab_only=True))
            server.say(Checked())
            return
        model = load_model(asked)
    except ConfigurationError as error:
        server.say(Refused(str(error)))
        return
    server.count(model.loaded.scheduler.counters)
    server.say(Ready(model.capabilities, model.fingerprint))
    thread = EngineThread(model.tokenizer, model.loaded, server, reproducible=model.capabilities.reproducible)
    engine.set_result(thread)
    thread.join()


def _follow(connection: socket, engine: "Future[EngineThread]") -> None:
    """Pass the server's commands on; at the end of the connection end the process."""
    code = FAILED
    try:
        while (command := _next_command(connection)) is not None:
            thread = engine.result()
            match command:
                case Add(number, request):
                    thread.add(request, number)
                case Cancel(number):
                    thread.cancel(number)
                case End(number, candidate):
                    thread.end(number, candidate)
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def _next_command(connection: socket) -> Any:
    # One who waits in `recv` is woken whenever the other end takes what was sent to it: by every step.
    select.select((connection,), (), ())
    return worker_messages.read(connection)


if __name__ == "__main__":
    main()
