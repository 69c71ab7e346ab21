"""Starts the process of a model and says how it ended. Knows no requests."""

import os
import signal
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from socket import socketpair
from threading import Lock, Timer
from typing import IO

import structlog

from afterword.engine.llama.llama_loading import LlamaSettings
from afterword.engine.worker import worker_messages
from afterword.engine.worker.worker_messages import Checked, CheckVocabulary, Logged, Ready, Refused
from afterword.errors import ConfigurationError

CHILD = "afterword.engine.worker.child"

KEEPS_MEMORY = {"MALLOC_MMAP_THRESHOLD_": str(4 << 20), "MALLOC_TRIM_THRESHOLD_": str(16 << 20)}
"""Has glibc keep up to 16 MiB that are free. A row of logits is beyond what it keeps else, and each array of that size
then takes ten times as long: the system gives and clears its memory anew."""

SECONDS_TO_END = 5.0
"""How long a process that has closed its connection may take to end, a dump of its memory included."""

MOST_WORDS = 65536
"""Bytes of what a process wrote last that are looked at: a stack of each thread, mostly."""

LAST_WORDS = 1000
"""Characters of it that are kept for the log."""

GIVES_UP = "llama.cpp gives up ("
"""How `aborting.py` begins the reason for an abort."""


class Worker:
    """One process with a model, from its start to its end."""

    def __init__(self, asked: LlamaSettings | CheckVocabulary) -> None:
        """Start the process, which begins to read the file. Raises `OSError` if the system does not allow one."""
        self._asked = asked
        self._ending = Lock()
        self._words = _scratch_file()
        self.last_words = ""
        """What the process has written last to its standard output or error, once it has ended."""
        self._gave_up = ""
        self._is_late = False
        self.connection, theirs = socketpair()
        # A new program, not a copy of this one, which has threads. It gets its connection and no other file.
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-X", "faulthandler", "-P", "-m", CHILD],
                stdin=theirs.fileno(),
                stdout=self._words,
                stderr=self._words,
                env={**KEEPS_MEMORY, **os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
                start_new_session=True,
            )
        self.pid = self._process.pid

    def load(self) -> Ready:
        """Wait until the model is loaded; seconds to minutes. Raises `ConfigurationError` if it cannot be in time."""
        ready = self.answer()
        assert isinstance(ready, Ready)
        return ready

    def answer(self) -> Ready | Checked:
        """Wait until the process has done what it was started for. Raises `ConfigurationError` if it cannot in time."""
        self.connection.setblocking(True)
        late = Timer(self._asked.load_seconds, self._end_late)
        late.daemon = True
        late.start()
        try:
            return self._answer()
        finally:
            late.cancel()

    def _answer(self) -> Ready | Checked:
        # One that has ended already is found out by reading.
        with suppress(OSError):
            self.connection.sendall(worker_messages.packed(self._asked))
        while True:
            match worker_messages.read(self.connection):
                case Logged() as logged:
                    write_line(logged)
                case Ready() | Checked() as answer:
                    return answer
                case Refused(message):
                    self.end()
                    raise ConfigurationError(message)
                case _:
                    how = self.end()
                    if self._is_late:
                        setting = " (load_timeout)" if isinstance(self._asked, LlamaSettings) else ""
                        how = f"it took more than {self._asked.load_seconds:g} s{setting}"
                    raise ConfigurationError(f"The model file {self._asked.path} cannot be loaded: {how}.")

    def _end_late(self) -> None:
        self._is_late = True
        self.kill()

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
            if not self._words.closed:
                self._keep_words()
        return how_it_ended(code, self.last_words.rpartition("\n")[2]) if self._gave_up == "" else self._gave_up

    def _keep_words(self) -> None:
        with self._words:
            self._words.seek(max(0, self._words.seek(0, os.SEEK_END) - MOST_WORDS))
            words = self._words.read().decode("utf-8", "replace").strip()
        self.last_words = words[-LAST_WORDS:]
        self._gave_up = next((line for line in words.splitlines() if line.startswith(GIVES_UP)), "")


def _scratch_file() -> IO[bytes]:
    """A file without a name, in memory where the system has that: no directory may be writable."""
    if sys.platform == "linux":
        return os.fdopen(os.memfd_create("afterword-worker"), "w+b")
    return tempfile.TemporaryFile()


def check_vocabulary(path: Path) -> None:
    """Have another process read a file's vocabulary. Raises `ConfigurationError` if it cannot, or ends of it."""
    worker = Worker(CheckVocabulary(path))
    try:
        worker.answer()
    finally:
        worker.end()


def how_it_ended(code: int, last_line: str) -> str:
    """The exit code of a process in words, negative for a signal; with what it has written last if it was none."""
    if code >= 0:
        return f"its process ended by itself with code {code}" + (f" ({last_line})" if last_line else "")
    hint = ", as by a system that has no memory left" if -code == signal.SIGKILL else ""
    return f"its process was ended by signal {-code} ({signal.strsignal(-code)}){hint}"


def write_line(logged: Logged) -> None:
    """Write a line that a worker wants in the log."""
    getattr(structlog.get_logger("afterword.engine"), logged.level)(**logged.line)
