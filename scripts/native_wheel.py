"""Print the path of a llama-cpp-python wheel compiled for this machine's processor, compiling it if there is none.

Usage: python -m scripts.native_wheel UV      (in the repository's root; progress goes to stderr)

Wheels are kept in the user's cache, keyed by everything that decides what is in them, the processor among it: a home
directory or an image may be shared by unlike machines, and code for one may not run on another. Installers keep wheels
too, but not by processor, and where a server says so they ask after a day whether the source has changed.
Standard library only: it runs before anything is installed.
"""

import fcntl
import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from scripts.with_progress import run_with_progress

LOCK = Path("requirements.lock")
BUILD_LOCK = Path("requirements-build.lock")
PACKAGE = "llama-cpp-python"


def wheel(uv: str) -> Path:
    """The wheel, built if need be. Raises `SystemExit` if it cannot be built."""
    pinned = requirement(LOCK.read_text(encoding="utf-8"))
    folder = cache() / key(
        pinned, BUILD_LOCK.read_text(encoding="utf-8"), os.environ.get("CMAKE_ARGS", ""), processor()
    )
    if not any(folder.glob("*.whl")):
        with only_one_at_a_time(folder.with_suffix(".lock")):
            if not any(folder.glob("*.whl")):
                print("Compiling llama.cpp for this processor, once: about five minutes on two cores", file=sys.stderr)
                build(uv, pinned, folder)
    return next(folder.glob("*.whl"))


@contextmanager
def only_one_at_a_time(path: Path) -> Iterator[None]:
    """Hold the lock file `path`: set-ups that start together do the work once, the others wait and find it done."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print("Another set-up is at the same work: waiting for what it makes", file=sys.stderr)
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def requirement(lock: str) -> str:
    """The package's own lines of the lock file: its version and hashes."""
    found = re.search(rf"^{PACKAGE}==.*?(?=^\S|\Z)", lock, re.MULTILINE | re.DOTALL)
    assert found is not None, f"{LOCK} has no {PACKAGE}"
    return found[0]


def key(*parts: str) -> str:
    """A folder's name that no other combination of parts has."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def processor() -> str:
    """What tells processors apart that need different code."""
    described = [platform.system(), platform.machine()]
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    # The first processor speaks for all; arm calls the flags features.
    for name in ("model name", "flags", "Features"):
        described += [line for line in lines if line.startswith(name)][:1]
    return "\n".join(described)


def cache() -> Path:
    """Where this user's wheels are kept."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(base) if base != "" else Path.home() / ".cache") / "afterword" / "wheels"


def build(uv: str, pinned: str, folder: Path) -> None:
    """Build into `folder`, which appears whole or not at all."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as name:
        work = Path(name)
        python = work / "tools" / "bin" / "python"
        subprocess.run([sys.executable, "-m", "venv", str(work / "tools")], check=True)
        install = [uv, "pip", "install", "--quiet", "--python", str(python), "--require-hashes", "-r", str(BUILD_LOCK)]
        subprocess.run(install, check=True)
        (work / "pinned.txt").write_text(pinned, encoding="utf-8")
        # Without pip's own cache, which keeps built wheels whatever processor they are for.
        options = [
            "--verbose",
            "--no-deps",
            "--no-cache-dir",
            "--no-build-isolation",
            "--disable-pip-version-check",
            "--require-hashes",
        ]
        source = ["--requirement", str(work / "pinned.txt"), "--wheel-dir", str(work / "wheel")]
        environment = {**os.environ, "PATH": f"{python.parent}{os.pathsep}{os.environ['PATH']}"}
        command = [str(python), "-m", "pip", "wheel", *options, *source]
        if run_with_progress(command, environment, Path(".venv/native-build.log")) != 0:
            raise SystemExit(1)
        shutil.rmtree(folder, ignore_errors=True)
        (work / "wheel").rename(folder)


if __name__ == "__main__":
    print(wheel(sys.argv[1]))
