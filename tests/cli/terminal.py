"""The program as its own process under a pseudo-terminal, as a person runs it."""

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

PROGRAM = [sys.executable, "-c", "from afterword.launch import main; main()"]
SOURCES = Path(__file__).resolve().parents[2] / "src"

Stream = Literal["stdout", "stderr"]


@dataclass(frozen=True, slots=True)
class Ran:
    """How a run ended, and what it wrote where."""

    code: int
    terminal: str
    """What the terminal was sent, escape sequences and all; lines end in CR LF."""
    stdout: bytes
    """Empty where it is the terminal."""
    stderr: bytes


def settings(folder: Path, **changed: str) -> dict[str, str]:
    """An environment without the user's own settings, in which models are the echo engine."""
    ours = {name: value for name, value in os.environ.items() if not name.startswith("AFTERWORD_")}
    database = {"AFTERWORD_DATABASE": str(folder / "afterword.db"), "AFTERWORD_MODEL": "echo"}
    return {**ours, "PYTHONPATH": str(SOURCES), "TERM": "xterm", **database, **changed}


def run(
    *arguments: str | bytes,
    folder: Path,
    terminal: tuple[Stream, ...] = (),
    columns: int = 110,
    stdin: bytes = b"",
    environment: Mapping[str, str] | None = None,
) -> Ran:
    """Run in `folder` to the end, with a terminal of `columns` columns for the streams named."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    shown = bytearray()
    reader = threading.Thread(target=_read, args=(ours, shown))
    reader.start()
    try:
        done = subprocess.run(
            [*PROGRAM, *arguments],
            cwd=folder,
            env=settings(folder) if environment is None else dict(environment),
            input=stdin,
            stdout=theirs if "stdout" in terminal else subprocess.PIPE,
            stderr=theirs if "stderr" in terminal else subprocess.PIPE,
            timeout=120,
        )
    finally:
        os.close(theirs)
        reader.join()
        os.close(ours)
    return Ran(done.returncode, shown.decode("utf-8", "replace"), done.stdout or b"", done.stderr or b"")


def _read(descriptor: int, into: bytearray) -> None:
    # A terminal that nobody has open any more is an error to Linux, not an end.
    try:
        while found := os.read(descriptor, 65536):
            into += found
    except OSError:
        pass
