"""The memory of a context's KV caches (`native/cells.cpp`): a page is taken when a cell on it is first written."""

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from afterword.config.model import KVType
from afterword.engine.llama.kernels import Kernels
from afterword.engine.llama.memory import SPARE_CELLS

KV_TYPES: dict[KVType, int] = {"f16": 1, "q8_0": 8}  # enum ggml_type


class Caches:
    """The caches of one context, whose keys and values of a cell must lie side by side: attention is one operation."""

    def __init__(self, kernels: Kernels) -> None:
        self._library = library = kernels.library
        library.afterword_caches_new.restype = ctypes.c_void_p
        library.afterword_caches_new.argtypes = []
        library.afterword_caches_listen.argtypes = library.afterword_caches_free.argtypes = [ctypes.c_void_p]
        library.afterword_caches_limit.argtypes = [ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64]
        library.afterword_caches_release.argtypes = [ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64]
        self._used: dict[int, int] = {}
        """Cells of each slot that may have memory, as of its latest cut."""
        self._copies: dict[int, int] = {}
        """Cells of slots to which others are copied with llama.cpp's next call."""
        self._pointer = library.afterword_caches_new()

    @contextmanager
    def made_here(self) -> Iterator[None]:
        """The caches that this thread makes meanwhile are these."""
        self._library.afterword_caches_listen(self._pointer)
        try:
            yield
        finally:
            self._library.afterword_caches_listen(None)

    def copying(self, slot: int, n: int) -> None:
        """llama.cpp's next call copies another slot to this one, of which n cells are used."""
        self._used[slot] = max(self._used.get(slot, 0), n)
        self._copies[slot] = n
        self._library.afterword_caches_limit(self._pointer, slot, n)

    def copied(self) -> None:
        """Whatever was to be copied is."""
        for slot in self._copies:
            self._library.afterword_caches_limit(self._pointer, slot, -1)
        self._copies.clear()

    def cut(self, slot: int, n_held: int, n: int) -> None:
        """A slot that held `n_held` tokens keeps the first n; cells of the others give back their memory."""
        if n < self._copies.get(slot, 0):
            self.copying(slot, n)
        used = max(self._used.get(slot, 0), n_held)
        if used - n >= SPARE_CELLS:
            self._library.afterword_caches_release(self._pointer, slot, n)
            used = n
        self._used[slot] = used

    def close(self) -> None:
        """After the context, once."""
        self._library.afterword_caches_free(self._pointer)


@dataclass(frozen=True, slots=True)
class Attention:
    """How a context attends, and how it keeps keys and values."""

    fused: bool
    """Whether scores, softmax and sums of values are one operation (llama.cpp's "flash attention")."""
    kv_type: KVType = "f16"
    caches: Caches | None = None
    """Take memory as cells are used; None: all cells take theirs at once. The context closes them."""

    def __post_init__(self) -> None:
        assert self.caches is None or self.fused, "what is kept of a token lies apart if attention is not fused"
