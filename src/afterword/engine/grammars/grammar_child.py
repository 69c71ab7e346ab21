"""The process that reads grammars: each within a time and a memory that the system holds it to.

Started by `grammar_compiler.py`, with one end of a pipe as its stdin; it ends when the other is closed. A grammar that
takes too long or too much, or at which llguidance aborts, ends this process and nothing else.
"""

import json
import resource
import signal
import sys
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Final

from afterword.engine.grammars.read_grammar import Unreadable, read

SECONDS: Final = 2.0
"""Of processor time, for one grammar."""

MEMORY: Final = 1 << 30
"""Bytes of address space, this program's own included."""


def main() -> None:
    """Read grammars, `[kind, text]` in JSON, until there are no more; answer `[grammar, problem]`."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    # A system that knows no such limit goes without.
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    connection = Connection(sys.stdin.fileno())
    with suppress(EOFError, OSError):
        while True:
            kind, text = json.loads(connection.recv_bytes())
            # Ends this process when the time is over.
            signal.setitimer(signal.ITIMER_PROF, SECONDS)
            answer = _answer(kind, text)
            signal.setitimer(signal.ITIMER_PROF, 0)
            connection.send_bytes(json.dumps(answer).encode())


def _answer(kind: str, text: str) -> tuple[str, str]:
    try:
        return read(kind, text), ""
    except Unreadable as error:
        return "", str(error)


if __name__ == "__main__":
    main()
