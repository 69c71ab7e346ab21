"""Uniform random numbers, each a hash of its key and position (docs/rules.md#random-numbers). Knows no sampling.

There is no state to advance, so neither the batch, nor the order of work, nor a restart can change a draw.
"""

import hashlib
import struct
from dataclasses import dataclass

_DRAW = b"token draw"
_CHANCE = b"chance"
"""Separate these numbers from other uses of the same key. Changing one would change the meaning of every seed."""


@dataclass(frozen=True, slots=True)
class RandomStream:
    """The random numbers of one candidate. Pure; any thread."""

    seed: int
    """Any signed 64-bit integer."""
    prompt_index: int
    """Number of the prompt within its request."""
    candidate: int
    """Number of the candidate within its prompt."""

    def uniform(self, position: int) -> float:
        """The number at `position` (>= 0): one of the 2**53 multiples of 2**-53 in [0, 1), evenly likely."""
        return self._number(position, _DRAW)

    def chance(self, position: int) -> float:
        """Another such number, independent of the first, for samplers that act now and then."""
        return self._number(position, _CHANCE)

    def _number(self, position: int, purpose: bytes) -> float:
        digest = hashlib.blake2b(
            struct.pack("<q", position),
            digest_size=8,
            key=struct.pack("<qqq", self.seed, self.prompt_index, self.candidate),
            person=purpose,
        ).digest()
        return (int.from_bytes(digest, "little") >> 11) * 2.0**-53
