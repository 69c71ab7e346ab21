"""What a result was made on: the processor, the system, and the versions of everything that was measured."""

import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks.places import OUR_PROGRAMS, ROOT, Places

PACKAGES = ("afterword", "llama_cpp_python", "uvicorn", "uvloop", "httptools", "orjson", "numpy", "pydantic", "fastapi")

_VERSIONS = "import importlib.metadata as m, sys; print('\\n'.join(f'{n} {m.version(n)}' for n in sys.argv[1:]))"


def facts(places: Places) -> dict[str, Any]:
    """Everything that decides the figures and is not in the repository."""
    processor = _fields(Path("/proc/cpuinfo"))
    memory = _fields(Path("/proc/meminfo"))
    return {
        "processor": processor.get("model name", platform.processor()),
        "processor_flags": processor.get("flags", "").split(),
        "cores": len(os.sched_getaffinity(0)),
        "memory": memory.get("MemTotal", ""),
        "system": platform.platform(),
        "python": sys.version.split()[0],
        "commit": _said("git", "-C", str(ROOT), "describe", "--always", "--dirty"),
        "packages": _said(str(OUR_PROGRAMS / "python"), "-c", _VERSIONS, *PACKAGES).splitlines(),
        "llama_server": _said(str(places.peers / "llama-server"), "--version").splitlines()[:1],
        "model": places.model.name,
        "model_bytes": places.model.stat().st_size,
        "variables": {name: value for name, value in os.environ.items() if name.startswith(("OMP_", "GOMP_", "GGML_"))},
    }


def _fields(file: Path) -> dict[str, str]:
    """The first value of each `name: value` line of a system file."""
    found: dict[str, str] = {}
    for line in file.read_text().splitlines():
        name, _, value = line.partition(":")
        found.setdefault(name.strip(), value.strip())
    return found


def _said(*command: str) -> str:
    """What a program prints; empty where it cannot be run."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return ""
    return (done.stdout or done.stderr).strip()
