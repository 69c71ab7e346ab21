"""The largest values of a long row of numbers, without sorting the row. Knows nothing of models.

Order everywhere: the larger value first, the lower id first where values are equal. An id is an index of the row.
"""

import numpy as np
from numpy.typing import NDArray

_BLOCK = 64
"""Values of a block. Of a vocabulary of 50,000 tokens that makes 800 maxima, and few blocks to look into."""


def largest(row: NDArray[np.float32], k: int) -> NDArray[np.intp]:
    """Ids of the k largest values of an (n,) row, in order; all n if k is more. The row holds no NaN.

    Each of the k blocks with the highest maxima has a value no lower than the k-th of those maxima, so
    nothing below that floor is among the k largest, and only a few blocks need a closer look.
    """
    k = min(k, row.size)
    n_blocks = row.size // _BLOCK
    if k >= n_blocks:
        return _largest_of(row, np.arange(row.size), k)
    # Block b is {b, b + n_blocks, b + 2 n_blocks, ...}, so that maxima are taken over whole vectors.
    maxima = row[: n_blocks * _BLOCK].reshape(_BLOCK, n_blocks).max(axis=0)
    floor = np.partition(maxima, n_blocks - k)[n_blocks - k] if k else np.float32(np.inf)
    chosen = np.flatnonzero(maxima >= floor)
    inside = (np.arange(_BLOCK)[:, np.newaxis] * n_blocks + chosen).ravel()
    ids = np.concatenate((inside, np.arange(n_blocks * _BLOCK, row.size)))
    ids = ids[row[ids] >= floor]
    return _largest_of(row[ids], ids, k)


def in_order(values: NDArray[np.float32], ids: NDArray[np.intp]) -> NDArray[np.intp]:
    """`ids` (each below 2**32), ordered by their `values`.

    Value and id are packed into one integer each: sorting those is several times faster than a stable sort
    of floats, and as no two are equal the result does not depend on how the sort works.
    """
    # The sum turns -0.0 into 0.0, which has other bits but is the same number. The bits of a negative float
    # grow with its size; once all but the sign are flipped, the integers compare as the floats do.
    bits = (values + np.float32(0.0)).view(np.int32).astype(np.int64)
    rising = np.where(bits >= 0, bits, bits ^ 0x7FFFFFFF)
    keys = (-rising << 32) | ids
    keys.sort()
    return (keys & 0xFFFFFFFF).astype(np.intp)


def _largest_of(values: NDArray[np.float32], ids: NDArray[np.intp], k: int) -> NDArray[np.intp]:
    """The k of `ids` with the largest `values`, in order. `ids` ascend, at least k of them."""
    if k == 0:
        return np.empty(0, dtype=np.intp)
    if values.size > k:
        kth = np.partition(values, values.size - k)[values.size - k]
        above = np.flatnonzero(values > kth)
        equal = np.flatnonzero(values == kth)[: k - above.size]
        kept = np.concatenate((above, equal))
        values, ids = values[kept], ids[kept]
    return in_order(values, ids)
