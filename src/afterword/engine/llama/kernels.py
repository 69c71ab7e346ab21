"""The kernels of `native/`, for matrix products and attention: compiled once for this processor, checked, put in front.

llama.cpp computes a row in several ways, which differ in the last bits, and chooses by how many rows there are. These
kernels reduce every element of a product by itself in one fixed order (native/quantized.h), and attend with every query
by itself (native/attention.cpp), so a row's numbers do not depend on what is computed beside it. They give the same
bits on every instruction set, which `DIGEST` checks.
"""

import ctypes
import hashlib
import os
import platform
import shutil
import subprocess
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path

import structlog

log = structlog.get_logger("afterword.engine")

SOURCES = Path(str(files("afterword") / "native"))

LLAMA_CPP_PYTHON = "0.3.36"
"""The version whose structures native/ggml_abi.h describes. No other is hooked into."""

DIGEST = 0x3E7C496383549E9B
"""What `afterword_kernels_digest` gives for kernels that are right. Only a change of the arithmetic changes it."""

OPTIMISE = ("-std=c++17", "-O3", "-fPIC", "-shared", "-pthread")
EXACT = ("-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math")
"""No multiplication and addition is fused but where the source says so: else compilers would differ in bits."""

VARIANTS: tuple[tuple[str, ...], ...] = ((), ("-DAFTERWORD_NO_AVX512",))
"""Definitions of the builds that are tried in turn until one gives the right digest."""

LIBRARIES = ("ggml-cpu", "ggml-base", "ggml")


class KernelsUnavailable(Exception):
    """The kernels cannot be used here; the message says why in one sentence."""


@dataclass(frozen=True, slots=True)
class Kernels:
    """The compiled library."""

    library: ctypes.CDLL
    instructions: str
    """The instruction set it uses: `avx512-vnni`, `avx2`, `neon` or `plain`."""

    @property
    def name(self) -> str:
        """What computes, for the fingerprint."""
        return f"{self.instructions} {DIGEST:016x}"


LLAMA_CPP = "llama.cpp"
"""What computes where it is not these kernels."""


@cache
def use_kernels(llama_version: str, llama_libraries: Path) -> Kernels | None:
    """Put the kernels in front of llama.cpp's for every model that is loaded from now on; once a process.

    None, with the reason in the log, where llama.cpp's own compute.
    """
    try:
        kernels = load_kernels(user_cache(), llama_version, llama_libraries)
        if not kernels.library.afterword_kernels_install():
            raise KernelsUnavailable("llama.cpp has none of the operations that they compute")
    except KernelsUnavailable as error:
        log.warning(
            "llama.cpp computes with its own kernels: slower, and not the same bytes beside other requests",
            reason=str(error),
        )
        return None
    return kernels


def user_cache() -> Path:
    """Where this user's compiled kernels are kept: they belong to the installation, not to a server."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(base) if base != "" else Path.home() / ".cache") / "afterword" / "kernels"


def load_kernels(cache_dir: Path, llama_version: str, llama_libraries: Path) -> Kernels:
    """The kernels, compiled into `cache_dir` if they are not there; seconds then, milliseconds later.

    Raises `KernelsUnavailable` if llama.cpp is another than they are written for, if there is no C++ compiler, or if
    what it made gives wrong numbers.
    """
    if llama_version != LLAMA_CPP_PYTHON:
        raise KernelsUnavailable(f"they are written for llama-cpp-python {LLAMA_CPP_PYTHON}, not {llama_version}")
    for variant in VARIANTS:
        library = _load(_compiled(cache_dir, variant, llama_libraries))
        if library.afterword_kernels_digest() == DIGEST:
            return Kernels(library, library.afterword_kernels_path().decode())
    raise KernelsUnavailable("what the compiler made of them gives wrong numbers")


def _load(path: Path) -> ctypes.CDLL:
    try:
        library = ctypes.CDLL(str(path))
    except OSError as error:
        raise KernelsUnavailable(f"the library {path} cannot be loaded: {error}") from error
    library.afterword_kernels_digest.restype = ctypes.c_uint64
    library.afterword_kernels_path.restype = ctypes.c_char_p
    library.afterword_kernels_install.restype = ctypes.c_bool
    library.afterword_kernels_multiply.restype = ctypes.c_bool
    library.afterword_kernels_multiply.argtypes = [
        *(ctypes.c_int32, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p),
        *(ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int32),
    ]
    library.afterword_kernels_attend.restype = ctypes.c_bool
    library.afterword_kernels_attend.argtypes = [ctypes.c_void_p]
    return library


def _compiled(cache_dir: Path, variant: tuple[str, ...], llama_libraries: Path) -> Path:
    """The library of a variant, in a place that its sources, its options and this processor name."""
    native = "-mcpu=native" if platform.machine() in ("arm64", "aarch64") else "-march=native"
    options = (*OPTIMISE, *EXACT, native, *variant)
    sources = (path.read_text("utf-8") for path in sorted(SOURCES.iterdir()) if path.suffix in (".cpp", ".h"))
    # Not by the libraries' place: the linker notes their names alone, and the process has loaded them by then.
    key = hashlib.sha256("\0".join([*options, _processor(), LLAMA_CPP_PYTHON, *sources]).encode()).hexdigest()[:16]
    target = cache_dir / f"kernels-{key}.so"
    try:
        if not _is_as_compiled(target):
            log.info("compiling the matrix kernels for this processor, once: some seconds", path=str(target))
            cache_dir.mkdir(parents=True, exist_ok=True)
            _compile(options, target, llama_libraries)
    except OSError as error:
        raise KernelsUnavailable(f"{target} cannot be read or written: {error.strerror}") from error
    return target


def _is_as_compiled(target: Path) -> bool:
    """Whether the library is there, to the byte as the compiler made it: a disk may have cut or changed it since."""
    if not target.exists():
        return False
    note = _note_of(target)
    if note.exists() and note.read_text("ascii", "replace") == _sha256(target):
        return True
    log.warning("the compiled kernels are not those that were made: they are made again", path=str(target))
    return False


def _note_of(target: Path) -> Path:
    """The file with the library's SHA-256 in hex."""
    return target.with_suffix(".sha256")


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _compile(options: tuple[str, ...], target: Path, llama_libraries: Path) -> None:
    """`target` appears whole or not at all. Processes that start together may each compile: the last one stays."""
    names = [name for name in (os.environ.get("CXX", ""), "c++", "g++", "clang++") if shutil.which(name) is not None]
    if not names:
        raise KernelsUnavailable("there is no C++ compiler to make them with (c++, g++ or clang++)")
    unfinished = target.with_name(f"{target.name}.{os.getpid()}")
    libraries = [str(min(llama_libraries.glob(f"lib{name}.*"))) for name in LIBRARIES]
    command = [names[0], *options, "-o", str(unfinished), *map(str, sorted(SOURCES.glob("*.cpp"))), *libraries]
    try:
        made = subprocess.run(command, capture_output=True, text=True, check=False)
        if made.returncode != 0:
            reason = next((line for line in made.stderr.splitlines() if "error" in line), "without a reason")
            raise KernelsUnavailable(f"{names[0]} refused them: {reason}")
        _note_of(target).write_text(_sha256(unfinished), "ascii")
        unfinished.replace(target)
    finally:
        with suppress(OSError):
            unfinished.unlink(missing_ok=True)


def _processor() -> str:
    """What tells processors apart that need different code: a cache directory may be shared by several machines."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    described = [line for name in ("model name", "flags", "Features") for line in lines if line.startswith(name)]
    return "\n".join([platform.system(), platform.machine(), platform.processor(), *sorted(set(described))])
