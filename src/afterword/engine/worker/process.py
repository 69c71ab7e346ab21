"""Starts the process of a model and says how it ended. Knows no requests."""

import os
import signal
import subprocess
import sys
import tempfile
from contextlib import suppress
from socket import socketpair
from threading import Lock
from typing import IO

import structlog

from afterword.engine.llama.llama_loading import LlamaSettings
from afterword.engine.worker import worker_messages
from afterword.engine.worker.worker_messages import Logged, Ready, Refused
from afterword.errors import ConfigurationError

CHILD = "afterword.engine.worker.child"

SECONDS_TO_END = 5.0
"""How long a process that has closed its connection may take to end, a dump of its memory included."""

LAST_WORDS = 1000
"""Bytes of what a process wrote last that are kept for the log."""

GIVES_UP = "llama.cpp gives up ("
"""How `aborting.py` begins the reason for an abort."""


class Worker:
    """One process with a model, from its start to its end."""

    def __init__(self, settings: LlamaSettings) -> None:
        """Start the process, which begins to load the model. Raises `OSError` if the system does not allow one."""
        self._settings = settings
        self._ending = Lock()
        self._words = _scratch_file()
        self.last_words = ""
        """What the process has written last to its standard output or error, once it has ended."""
        self.connection, theirs = socketpair()
        # A new program, not a copy of this one, which has threads. It gets its connection and no other file.
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-X", "faulthandler", "-P", "-m", CHILD],
                stdin=theirs.fileno(),
                stdout=self._words,
                stderr=self._words,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
                start_new_session=True,
            )
        self.pid = self._process.pid

    def load(self) -> Ready:
        """Wait until the model is loaded; seconds to minutes. Raises `ConfigurationError` if it cannot be."""
        self.connection.setblocking(True)
        # One that has ended already is found out by reading.
        with suppress(OSError):
            self.connection.sendall(worker_messages.packed(self._settings))
        while True:
            match worker_messages.read(self.connection):
                case Logged() as logged:
                    write_line(logged)
                case Ready() as ready:
                    return ready
                case Refused(message):
                    self.end()
                    raise ConfigurationError(message)
                case _:
                    how = self.end()
                    raise ConfigurationError(f"The model file {self._settings.path} cannot be loaded: {how}.")

    def kill(self) -> None:
        """Have the process end at once, whatever it does."""
        self._process.kill()

    def end(self) -> str:
        """Close the connection, wait until the process has ended, and say how, without a full stop; any thread."""
        self.connection.close()
        with self._ending:
            try:
                code = self._process.wait(SECONDS_TO_END)
            except subprocess.TimeoutExpired:
                self._process.kill()
                code = self._process.wait()
            self._keep_last_words()
        given_up = [line for line in self.last_words.splitlines() if line.startswith(GIVES_UP)]
        return given_up[-1] if given_up else how_it_ended(code)

    def _keep_last_words(self) -> None:
        if not self._words.closed:
            with self._words:
                self._words.seek(max(0, self._words.seek(0, os.SEEK_END) - LAST_WORDS))
                self.last_words = self._words.read().decode("utf-8", "replace").strip()


def _scratch_file() -> IO[bytes]:
    """A file without a name, in memory where the system has that: no directory may be writable."""
    if sys.platform == "linux":
        return os.fdopen(os.memfd_create("afterword-worker"), "w+b")
    return tempfile.TemporaryFile()


def how_it_ended(code: int) -> str:
    """The exit code of a process in words, negative for a signal."""
    if code >= 0:
        return f"its process ended by itself with code {code}"
    hint = ", as by a system that has no memory left" if -code == signal.SIGKILL else ""
    return f"its process was ended by signal {-code} ({signal.strsignal(-code)}){hint}"


def write_line(logged: Logged) -> None:
    """Write a line that a worker wants in the log."""
    getattr(structlog.get_logger("afterword.engine"), logged.level)(**logged.line)
