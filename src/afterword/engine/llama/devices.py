"""The accelerators that this build of llama.cpp can compute on, as ggml lists them. Any thread."""

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

from afterword.config.model import SplitMode

SPLIT_MODES: dict[SplitMode, int] = {"none": 0, "layer": 1, "row": 2}  # enum llama_split_mode


class Kind(IntEnum):
    """enum ggml_backend_dev_type."""

    CPU = 0
    GPU = 1
    """With memory of its own."""
    IGPU = 2
    """With the processor's memory."""
    ACCELERATOR = 3
    """Computes beside the processor, such as BLAS: holds no weights."""


@dataclass(frozen=True, slots=True)
class Device:
    """One accelerator that can hold layers."""

    name: str
    """As ggml calls it, e.g. `CUDA0` or `Vulkan1`."""
    description: str
    """As its driver calls it."""
    free: int
    """Bytes that are free now, as its driver says."""
    pointer: int
    """ggml_backend_dev_t."""


def list_devices(library: ctypes.CDLL) -> tuple[Device, ...]:
    """Those of `library`, llama.cpp once its backend is started: the ones with memory of their own first.

    A processor's own GPU comes after them. Empty where llama.cpp was built for processors alone.
    """
    library.ggml_backend_dev_count.restype = ctypes.c_size_t
    library.ggml_backend_dev_get.restype = ctypes.c_void_p
    library.ggml_backend_dev_get.argtypes = [ctypes.c_size_t]
    library.ggml_backend_dev_type.argtypes = [ctypes.c_void_p]
    pointers = [library.ggml_backend_dev_get(place) for place in range(library.ggml_backend_dev_count())]
    kinds = {pointer: library.ggml_backend_dev_type(pointer) for pointer in pointers}
    return tuple(
        _device(library, pointer) for kind in (Kind.GPU, Kind.IGPU) for pointer in pointers if kinds[pointer] == kind
    )


def null_terminated(devices: Sequence[Device]) -> "ctypes.Array[ctypes.c_void_p]":
    """The list as llama.cpp takes it; with none in it llama.cpp uses no accelerator, without a list all there are."""
    return (ctypes.c_void_p * (len(devices) + 1))(*(device.pointer for device in devices))


def _device(library: ctypes.CDLL, pointer: int) -> Device:
    names = []
    for function in (library.ggml_backend_dev_name, library.ggml_backend_dev_description):
        function.restype = ctypes.c_char_p
        function.argtypes = [ctypes.c_void_p]
        names.append(function(pointer).decode("utf-8", "replace"))
    free, total = ctypes.c_size_t(), ctypes.c_size_t()
    library.ggml_backend_dev_memory.restype = None
    library.ggml_backend_dev_memory.argtypes = [ctypes.c_void_p, *2 * (ctypes.POINTER(ctypes.c_size_t),)]
    library.ggml_backend_dev_memory(pointer, ctypes.byref(free), ctypes.byref(total))
    return Device(names[0], names[1], free.value, pointer)
