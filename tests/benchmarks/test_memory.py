import subprocess
import sys
from pathlib import Path

import pytest
from benchmarks.memory import forget_the_peak, peak_mib, resident_mib

pytestmark = pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="memory is read from Linux's /proc")

MIB = 2**20

GROWS = f"""
import sys
print(flush=True)
sys.stdin.readline()
bytearray(64 * {MIB})
print(flush=True)
sys.stdin.readline()
"""
"""Says that it is there; sent a line, takes 64 MiB, gives them back and says so; ends at the next line."""

PARENT = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {GROWS!r}])"


@pytest.mark.parametrize("program", [GROWS, PARENT], ids=["itself", "child"])
def test_peak_counts_what_was_given_back_until_it_is_forgotten(program: str) -> None:
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdout.readline()
        idle = resident_mib(process.pid)
        forget_the_peak(process.pid)
        assert peak_mib(process.pid) < idle + 32
        process.stdin.write(b"\n")
        process.stdin.flush()
        process.stdout.readline()
        assert idle + 60 < peak_mib(process.pid)
        assert resident_mib(process.pid) < idle + 32
        forget_the_peak(process.pid)
        assert peak_mib(process.pid) < idle + 32
        process.stdin.write(b"\n")


def test_process_that_has_ended_is_an_error() -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
    for ask in (resident_mib, forget_the_peak, peak_mib):
        with pytest.raises(ProcessLookupError, match=f"there is no process {process.pid}"):
            ask(process.pid)
