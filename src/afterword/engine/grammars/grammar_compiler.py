"""Has grammars read in another process, which may end of one, and remembers what came of the latest."""

import atexit
import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from threading import Lock
from typing import Final

from afterword.errors import InvalidRequest
from afterword.fields.grammars import Grammar

CHILD: Final = "afterword.engine.grammars.grammar_child"

REMEMBERED: Final = 64
"""Grammars: clients send the same one again and again."""

MOST_SECONDS: Final = 30.0
"""Until a process that should have used up its time by then is ended: this one may have few processors to itself."""


class GrammarFailed(InvalidRequest):
    """A grammar cannot be followed: it is wrong, nobody can satisfy it, or it takes too much."""


@dataclass(frozen=True, slots=True)
class Compiled:
    """A grammar that can be followed."""

    written: Grammar
    text: str
    """As llguidance reads it."""


@lru_cache(REMEMBERED)
def compiled(grammar: Grammar) -> Compiled:
    """Raises `GrammarFailed` with line and column, where it has them.

    Waits for the process that reads it, up to seconds, and for its other readers. Any thread.
    """
    text, problem = _READER.answer(grammar)
    if problem != "":
        raise GrammarFailed(problem)
    return Compiled(grammar, text)


class _Reader:
    """The process that reads grammars; started with the first, and anew if one has ended it."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._connection: Connection | None = None

    def answer(self, grammar: Grammar) -> tuple[str, str]:
        """The grammar as it is read, and what is wrong with it."""
        with self._lock:
            connection = self._started()
            with suppress(EOFError, OSError):
                connection.send_bytes(json.dumps((grammar.kind, grammar.text)).encode())
                if connection.poll(MOST_SECONDS):
                    text, problem = json.loads(connection.recv_bytes())
                    return text, problem
            return "", _ended(self._end())

    def close(self) -> None:
        """End the process."""
        with self._lock:
            self._end()

    def _started(self) -> Connection:
        if self._connection is None:
            self._connection, theirs = Pipe()
            with theirs:
                self._process = subprocess.Popen(
                    [sys.executable, "-P", "-m", CHILD],
                    stdin=theirs.fileno(),
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
                    start_new_session=True,
                )
        return self._connection

    def _end(self) -> int:
        """End the process, if there is one; its exit code."""
        if self._process is None or self._connection is None:
            return 0
        self._connection.close()
        # One that has used up its time has ended by itself.
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(1)
        self._process.kill()
        code = self._process.wait()
        self._process = self._connection = None
        return code


def _ended(code: int) -> str:
    if code in (-signal.SIGPROF, -signal.SIGKILL):
        return "takes too long to be read."
    return "takes more memory than there is for one, or cannot be read."


_READER: Final = _Reader()
atexit.register(_READER.close)
