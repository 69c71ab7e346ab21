"""The kernels' NEON paths: cross-compiled, run under emulation, and held to the same bits as all others."""

import shutil
import subprocess
from pathlib import Path

import pytest

from afterword.engine.llama.kernels import DIGEST, EXACT, SOURCES

COMPILER, EMULATOR = "aarch64-linux-gnu-g++", "qemu-aarch64"

pytestmark = pytest.mark.skipif(
    shutil.which(COMPILER) is None or shutil.which(EMULATOR) is None,
    reason=f"{COMPILER} or {EMULATOR} is not installed (Debian: g++-aarch64-linux-gnu, qemu-user)",
)


@pytest.mark.parametrize("architecture", ["armv8-a", "armv8.2-a+dotprod"])
def test_neon_gives_the_same_bits(tmp_path: Path, architecture: str) -> None:
    program = tmp_path / "digest"
    sources = [*map(str, sorted(SOURCES.glob("*.cpp"))), str(Path(__file__).with_name("ggml_stand_in.cpp"))]
    options = ["-static", "-std=c++17", "-O2", "-pthread", f"-march={architecture}", *EXACT, f"-I{SOURCES}"]
    subprocess.run([COMPILER, *options, "-o", str(program), *sources], check=True)
    said = subprocess.run([EMULATOR, str(program)], capture_output=True, text=True, check=True).stdout
    assert said.split() == ["neon", f"{DIGEST:016x}"]
