"""The rows of a call of llama.cpp, in arrays that are filled anew for each."""

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Integers = Sequence[int] | NDArray[np.signedinteger]


class BatchRows:
    """A llama_batch over numpy arrays that are filled anew for each call."""

    def __init__(self, batch: Any, n_max: int) -> None:
        """`batch`: an empty llama_batch. `n_max`: rows of a call at most."""
        self._tokens = np.zeros(n_max, dtype=np.int32)
        self._positions = np.zeros(n_max, dtype=np.int32)
        self._n_seq_id = np.ones(n_max, dtype=np.int32)
        self._slots = np.zeros(n_max, dtype=np.int32)
        self._outputs = np.zeros(n_max, dtype=np.int8)
        # One pointer a row, each to that row's slot number.
        first = self._slots.ctypes.data
        self._slot_pointers = np.arange(first, first + 4 * n_max, 4, dtype=np.uint64)
        self._batch = batch
        self._batch.token = self._tokens.ctypes.data_as(ctypes.POINTER(ctypes.c_int32))
        self._batch.pos = self._positions.ctypes.data_as(ctypes.POINTER(ctypes.c_int32))
        self._batch.n_seq_id = self._n_seq_id.ctypes.data_as(ctypes.POINTER(ctypes.c_int32))
        self._batch.seq_id = self._slot_pointers.ctypes.data_as(ctypes.POINTER(ctypes.POINTER(ctypes.c_int32)))
        self._batch.logits = self._outputs.ctypes.data_as(ctypes.POINTER(ctypes.c_int8))

    @property
    def n_outputs(self) -> int:
        """Rows whose logits are put out."""
        return int(np.count_nonzero(self._outputs[: self._batch.n_tokens]))

    def fill(
        self,
        tokens: Integers,
        positions: Integers,
        slots: Integers,
        outputs: Integers,
    ) -> Any:
        """The batch with these rows; valid until the next call."""
        n = len(tokens)
        assert 0 < n <= len(self._tokens)
        self._tokens[:n] = tokens
        self._positions[:n] = positions
        self._slots[:n] = slots
        self._outputs[:n] = outputs
        self._batch.n_tokens = n
        return self._batch
