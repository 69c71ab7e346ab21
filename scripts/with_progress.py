"""Run `uv ... --verbose` and say every few seconds how far it is: its build output is long, its silence longer.

Usage: with_progress.py LOG COMMAND...    everything goes to LOG; what matters and a line of progress go to stdout.
Standard library only: it runs before anything is installed.
"""

import queue
import re
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TextIO

SECONDS_BETWEEN_LINES = 5
COMPILED = re.compile(r"\[(\d+)/(\d+)\] ")
NOISE = re.compile(r"^(DEBUG|TRACE|INFO|WARN) |^\s*$")


class Progress:
    """What the output so far says about how far the work is."""

    def __init__(self, started: float) -> None:
        self._started = started
        self._last_line = started
        self._compiled = ""

    def see(self, line: str) -> str | None:
        """Take one line of output; what to show of it at once."""
        if NOISE.match(line) is None:
            return line
        found = COMPILED.search(line)
        if found is not None:
            self._compiled = f", {found[1]} of {found[2]} steps of llama.cpp built"
        return None

    def tick(self, now: float) -> str | None:
        """A line of progress if one is due."""
        if now - self._last_line < SECONDS_BETWEEN_LINES:
            return None
        self._last_line = now
        return f"  ... {now - self._started:.0f} s{self._compiled}"


def main(log: Path, command: list[str]) -> int:
    """Run the command; its exit code."""
    lines: queue.Queue[str | None] = queue.Queue()
    with (
        log.open("w") as file,
        subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
        ) as process,
    ):

        def read() -> None:
            assert process.stdout is not None
            for line in process.stdout:
                lines.put(line.rstrip("\n"))
            lines.put(None)

        threading.Thread(target=read, daemon=True).start()
        follow(lines, file)
    if process.returncode != 0:
        print(f"Failed: {' '.join(command)}\nThe end of {log}:", flush=True)
        print("\n".join(log.read_text().splitlines()[-40:]), flush=True)
    return process.returncode


def follow(lines: queue.Queue[str | None], log: TextIO) -> None:
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
                print(shown, flush=True)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
