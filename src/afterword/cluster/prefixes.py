"""Which replica has computed which prompt prefixes, as far as one router has seen. Knows no Ray.

A prefix is named by a chain of hashes, one for each block of tokens, so that two prompts share exactly the entries of
their common blocks. The oldest entries are dropped first. What a replica has evicted meanwhile is not known here, which
only costs a prefill.
"""

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from hashlib import blake2b

import numpy as np

BLOCK = 16
"""Tokens in a block: a shorter shared prefix does not decide the replica."""

MAX_ENTRIES = 200_000
"""Blocks remembered: some 3 million tokens, about 40 MB."""


class PrefixIndex:
    """Not thread-safe; lives with one router."""

    def __init__(self, max_entries: int = MAX_ENTRIES) -> None:
        self._max_entries = max_entries
        self._holders: OrderedDict[bytes, set[str]] = OrderedDict()
        """Block chain hash -> replicas that were sent a prompt with it; most recently used last."""

    def matches(self, chain: Sequence[bytes]) -> dict[str, int]:
        """For each replica that was sent a beginning of the prompt: how many whole blocks of it."""
        found: dict[str, int] = {}
        for depth, block in enumerate(chain, start=1):
            holders = self._holders.get(block)
            if not holders:
                break
            for replica in holders:
                # A replica counts only as far as it holds every block before.
                if found.get(replica, 0) == depth - 1:
                    found[replica] = depth
        return found

    def add(self, chain: Sequence[bytes], replica: str) -> None:
        """Remember that `replica` is about to compute the prompt."""
        for block in reversed(chain):
            self._holders.setdefault(block, set()).add(replica)
            # From the end to the start, so that of one prompt the end is dropped first.
            self._holders.move_to_end(block)
        while len(self._holders) > self._max_entries:
            self._holders.popitem(last=False)

    def keep_only(self, replicas: set[str]) -> None:
        """Forget what replicas outside `replicas` held: they are gone, and their caches with them."""
        for block in [block for block, holders in self._holders.items() if not holders <= replicas]:
            self._holders[block] &= replicas
            if not self._holders[block]:
                del self._holders[block]


def block_chain(prompt: Sequence[int]) -> tuple[bytes, ...]:
    """The chain of a prompt: one hash for each whole block, each over everything up to its end.

    The same in every process, unlike `hash`.
    """
    return tuple(_links(np.asarray(prompt, dtype="<i4")))


def _links(tokens: np.ndarray) -> Iterator[bytes]:
    link = b""
    for start in range(0, len(tokens) - BLOCK + 1, BLOCK):
        link = blake2b(link + tokens[start : start + BLOCK].tobytes(), digest_size=12).digest()
        yield link
