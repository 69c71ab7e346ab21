"""Runs a build that takes minutes, and says every few seconds how far it is.

Everything the build says goes to a log; a line of progress, and the end of the log after a failure, go to stderr.
Standard library only: it runs before anything is installed.
"""

import queue
import re
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TextIO

SECONDS_BETWEEN_LINES = 5
COMPILED = re.compile(r"\[(\d+)/(\d+)\] ")
SHOWN = re.compile(r"Collecting |Building wheels|Successfully |ERROR|error:")


class Progress:
    """What the output so far says about how far the work is."""

    def __init__(self, started: float) -> None:
        self._started = started
        self._last_line = started
        self._compiled = ""

    def see(self, line: str) -> str | None:
        """Take one line of output; what to show of it at once."""
        if SHOWN.match(line) is not None:
            return line
        found = COMPILED.search(line)
        if found is not None:
            self._compiled = f", step {found[1]} of {found[2]}"
        return None

    def tick(self, now: float) -> str | None:
        """A line of progress if one is due. `now` as `started`: seconds of the same clock."""
        if now - self._last_line < SECONDS_BETWEEN_LINES:
            return None
        self._last_line = now
        return f"  ... {now - self._started:.0f} s{self._compiled}"


def run_with_progress(command: list[str], environment: Mapping[str, str], log: Path) -> int:
    """Run the command; its exit code."""
    lines: queue.Queue[str | None] = queue.Queue()
    with (
        log.open("w", encoding="utf-8") as file,
        subprocess.Popen(
            command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
        ) as process,
    ):
        assert process.stdout is not None
        threading.Thread(target=_read, args=(process.stdout, lines), daemon=True).start()
        _follow(lines, file)
    if process.returncode != 0:
        end = log.read_text(encoding="utf-8").splitlines()[-40:]
        print("\n".join([f"Failed: {' '.join(command)}", f"The end of {log}:", *end]), file=sys.stderr)
    return process.returncode


def _read(output: TextIO, lines: queue.Queue[str | None]) -> None:
    for line in output:
        lines.put(line.rstrip("\n"))
    lines.put(None)


def _follow(lines: queue.Queue[str | None], log: TextIO) -> None:
    """Show progress until the output ends."""
    progress = Progress(time.monotonic())
    while True:
        try:
            line = lines.get(timeout=1)
        except queue.Empty:
            line = ""
        if line is None:
            return
        log.write(line + "\n")
        for shown in (progress.see(line), progress.tick(time.monotonic())):
            if shown is not None:
                print(shown, file=sys.stderr, flush=True)
