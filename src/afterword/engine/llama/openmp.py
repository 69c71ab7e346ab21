"""Ends the OpenMP worker threads of a thread that has nothing to compute. Knows no model.

OpenMP keeps a team of workers for each thread that ever computed. While all teams together have more threads than the
machine has processors, no worker waits by spinning; each of the hundreds of barriers in a token's computation then has
to wake threads, and a single sequence takes four times as long, even if the other teams are idle. So an idle thread
ends its team. Starting a new one takes some 0.1 ms.
"""

import ctypes
from collections.abc import Callable

PAUSE_SOFT = 1
"""omp_pause_soft (OpenMP 5.0): give up threads, keep data."""


def _release() -> Callable[[], None]:
    """Does nothing where the library is not GNU's, which is the one that waits like this."""
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
