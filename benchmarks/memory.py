"""How much memory a server takes, as the kernel counts it: nothing has to poll while something else is measured."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

FORGET_THE_PEAK = "5"
"""What `/proc/PID/clear_refs` takes to let VmHWM begin anew (proc(5))."""


def resident_mib(process_id: int) -> float:
    """MiB of a process and its descendants that are in memory, mapped files included.

    Raises `ProcessLookupError` if there is no such process, as the others here do.
    """
    return sum(_kib(member, "VmRSS") for member in _family(process_id)) / 1024


def forget_the_peak(process_id: int) -> None:
    """Let `peak_mib` begin anew; where the kernel does not, it begins with the process."""
    for member in _family(process_id):
        with suppress(OSError):
            Path(f"/proc/{member}/clear_refs").write_text(FORGET_THE_PEAK)


def peak_mib(process_id: int) -> float:
    """The sum of the peaks of a process and its descendants since `forget_the_peak`."""
    return sum(_kib(member, "VmHWM") for member in _family(process_id)) / 1024


def _family(process_id: int) -> list[int]:
    tasks = Path(f"/proc/{process_id}/task")
    if not tasks.is_dir():
        raise ProcessLookupError(f"there is no process {process_id}")
    return [process_id, *_descendants(tasks)]


def _descendants(tasks: Path) -> Iterator[int]:
    for task in tasks.glob("*/children"):
        # Whatever ends while it is looked at has no memory.
        with suppress(FileNotFoundError, ProcessLookupError):
            for child in task.read_text().split():
                yield int(child)
                yield from _descendants(Path(f"/proc/{child}/task"))


def _kib(process_id: int, name: str) -> int:
    """A figure of `/proc/PID/status`; 0 of a process that has ended, which has no memory."""
    with suppress(FileNotFoundError, ProcessLookupError):
        for line in Path(f"/proc/{process_id}/status").read_text().splitlines():
            if line.startswith(f"{name}:"):
                return int(line.split()[1])
    return 0
