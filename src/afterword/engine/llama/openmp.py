"""Ends the worker threads with which llama.cpp computes, while there is nothing to compute. Knows no model.

OpenMP keeps a team of workers for each thread that ever computed. While all teams together have more members than the
machine has processors, none of them waits actively, and on an otherwise idle machine each of the hundreds of times that
a token's computation waits then takes long: a lone sequence takes four times as long, even if the other teams have
nothing to do. So a thread that has nothing to compute gives up its team. A new one takes some 0.1 ms.
"""

import ctypes
from collections.abc import Callable

PAUSE_SOFT = 1
"""omp_pause_soft (OpenMP 5.0): give up threads, keep data."""


def _release() -> Callable[[], None]:
    """Nothing is done where the library is not GNU's, whose way of waiting is the reason."""
    try:
        library = ctypes.CDLL("libgomp.so.1")
        library.omp_pause_resource_all.argtypes = [ctypes.c_int]
    except (OSError, AttributeError):
        return lambda: None

    def release() -> None:
        library.omp_pause_resource_all(PAUSE_SOFT)

    return release


release_workers = _release()
"""End the team of the calling thread, if it has one. Any thread; microseconds."""
