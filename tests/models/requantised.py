"""A model's file with other types of numbers, made by llama.cpp."""

import ctypes
from pathlib import Path

import llama_cpp.llama_cpp as c

from afterword.engine.llama.binding import start_backend

FILE_TYPES = {
    "F16": c.LLAMA_FTYPE_MOSTLY_F16,
    "BF16": c.LLAMA_FTYPE_MOSTLY_BF16,
    "Q8_0": c.LLAMA_FTYPE_MOSTLY_Q8_0,
    "Q6_K": c.LLAMA_FTYPE_MOSTLY_Q6_K,
    "Q5_0": c.LLAMA_FTYPE_MOSTLY_Q5_0,
    "Q5_1": c.LLAMA_FTYPE_MOSTLY_Q5_1,
    "Q5_K_M": c.LLAMA_FTYPE_MOSTLY_Q5_K_M,
    "Q4_0": c.LLAMA_FTYPE_MOSTLY_Q4_0,
    "Q4_1": c.LLAMA_FTYPE_MOSTLY_Q4_1,
    "Q4_K_M": c.LLAMA_FTYPE_MOSTLY_Q4_K_M,
    "IQ4_NL": c.LLAMA_FTYPE_MOSTLY_IQ4_NL,
    "IQ4_XS": c.LLAMA_FTYPE_MOSTLY_IQ4_XS,
    "MXFP4": c.LLAMA_FTYPE_MOSTLY_MXFP4_MOE,
    "Q3_K_M": c.LLAMA_FTYPE_MOSTLY_Q3_K_M,
    "IQ3_S": c.LLAMA_FTYPE_MOSTLY_IQ3_S,
    "TQ2_0": c.LLAMA_FTYPE_MOSTLY_TQ2_0,
    "TQ1_0": c.LLAMA_FTYPE_MOSTLY_TQ1_0,
    "Q2_K": c.LLAMA_FTYPE_MOSTLY_Q2_K,
}
"""Mixtures of types by the names under which files are known."""


def requantise(source: Path, target: Path, file_type: str, n_threads: int = 1) -> Path:
    """Write `target` with the mixture of types that is called `file_type`. Returns its path."""
    start_backend()
    params = c.llama_model_quantize_default_params()
    params.ftype = FILE_TYPES[file_type]
    params.nthread = n_threads
    params.allow_requantize = True
    code = c.llama_model_quantize(str(source).encode(), str(target).encode(), ctypes.byref(params))
    assert code == 0, f"llama.cpp does not make {file_type} of {source}"
    return target
