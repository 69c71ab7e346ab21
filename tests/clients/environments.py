"""Environments for clients that need packages of their own: where they are, and how they are built.

Each is a virtual environment with exactly the packages of `requirements/NAME.txt`, kept outside the checkout and named
after a hash of that file, so that it is built once and never out of date. The tests only look for them; building is

    python -m tests.clients.environments [NAME...]          (all of them without a name)
"""

import argparse
import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

REQUIREMENTS = Path(__file__).parent / "requirements"
NAMES = tuple(sorted(path.stem for path in REQUIREMENTS.glob("*.txt")))


def environment(name: str) -> Path | None:
    """The folder of a finished environment; None if it has not been built from the present requirements."""
    folder = _folder(name)
    return folder if (folder / ".complete").exists() else None


def build(name: str) -> Path:
    """Build the environment unless it is there; several processes may ask at once. Returns its folder.

    Raises `subprocess.CalledProcessError` if a package cannot be installed, `FileNotFoundError` without uv.
    """
    folder = _folder(name)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with (folder.parent / f"{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / ".complete").exists():
            print(f"Building the environment of the client {name}: {folder}", flush=True)
            shutil.rmtree(folder, ignore_errors=True)
            _install(folder, REQUIREMENTS / f"{name}.txt")
            (folder / ".complete").touch()
    return folder


def _folder(name: str) -> Path:
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    recipe = f"{sys.version_info[:2]}\n{(REQUIREMENTS / f'{name}.txt').read_text()}"
    return cache / "afterword" / "clients" / f"{name}-{hashlib.sha256(recipe.encode()).hexdigest()[:12]}"


def _install(folder: Path, requirements: Path) -> None:
    uv = _uv()
    subprocess.run([uv, "venv", "--quiet", "--python", sys.executable, folder], check=True)
    # The files list everything that is needed. What they leave out, dependencies of some packages among it, isn't.
    subprocess.run(
        [uv, "pip", "install", "--quiet", "--no-deps", "--python", folder / "bin/python", "-r", requirements],
        check=True,
        env={**os.environ, "VIRTUAL_ENV": str(folder)},
    )


def _uv() -> str:
    beside = Path(sys.executable).with_name("uv")
    found = str(beside) if beside.exists() else shutil.which("uv")
    if found is None:
        raise FileNotFoundError("uv is needed to build the environments of clients; `make setup` installs it.")
    return found


def main() -> None:
    """Build the environments named on the command line."""
    parser = argparse.ArgumentParser(description="Build the environments that tests of clients run in.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"one of {', '.join(NAMES)}; all of them if none")
    for name in parser.parse_args().names or NAMES:
        build(name)


if __name__ == "__main__":
    main()
