"""Which replica a prompt goes to: the one that has its beginning, unless that one is busy. Knows no Ray.

1. Of the replicas that hold a beginning of the prompt, the one with most of it, the least busy of equals.
2. If that one has `SLACK` requests more under way than the least busy of all, it is passed over: waiting there would
   cost more than computing the prefix again.
3. With no beginning known, the replica that a hash of the first block prefers among the least busy: routers that
   do not communicate send the same beginning to the same replica.
"""

from collections.abc import Mapping, Sequence
from hashlib import blake2b

SLACK = 8
"""Requests that a replica may be ahead of the least busy one before its shared prefix no longer counts."""

EQUALLY_BUSY = 2
"""Difference in requests under way that counts as equally busy when nothing else decides."""


def rank(chain: Sequence[bytes], held: Mapping[str, int], ongoing: Mapping[str, int], slack: int = SLACK) -> list[str]:
    """All replicas of `ongoing`, the best one for the prompt first.

    `held`: whole blocks of the prompt that each replica holds. `ongoing`: requests under way on each, as far as known.
    """
    least = min(ongoing.values())

    def worth(replica: str) -> tuple[int, int, int, int]:
        extra = ongoing[replica] - least
        blocks = held.get(replica, 0) if extra < slack else 0
        return (-blocks, max(0, extra - EQUALLY_BUSY), _preference(chain, replica), extra)

    return sorted(ongoing, key=worth)


def _preference(chain: Sequence[bytes], replica: str) -> int:
    """Rendezvous hashing: each beginning has its own order of the replicas; smaller is better."""
    if not chain:
        return 0
    return int.from_bytes(blake2b(chain[0] + replica.encode(), digest_size=8).digest())
