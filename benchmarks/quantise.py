"""Write a copy of a GGUF file in another format, from its quantised weights. Runs in the project's environment.

.venv/bin/python benchmarks/quantise.py SOURCE.gguf TARGET.gguf
"""

import ctypes
import os
import sys
from pathlib import Path

import llama_cpp.llama_cpp as c

Q8_0 = 7
"""llama.cpp's number of the file type."""


def quantise(source: Path, target: Path) -> None:
    """Write `target` whole or not at all. Raises `RuntimeError`."""
    params = c.llama_model_quantize_default_params()
    params.ftype = Q8_0
    params.allow_requantize = True
    params.nthread = os.cpu_count() or 1
    unfinished = target.with_suffix(f".{os.getpid()}")
    if c.llama_model_quantize(str(source).encode(), str(unfinished).encode(), ctypes.byref(params)) != 0:
        raise RuntimeError(f"{source} could not be written as Q8_0")
    unfinished.replace(target)


if __name__ == "__main__":
    quantise(Path(sys.argv[1]), Path(sys.argv[2]))
