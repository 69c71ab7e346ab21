"""Mutants of a GGUF file: its head with some bytes changed, numbers at their edges, regions moved, the end cut off."""

import random
import struct
from collections.abc import Callable, Iterator

EDGES = (0, 1, 2, 3, 4, 5, 8, 9, 31, 43, 63, 64, 255, 1 << 16, 1 << 31, (1 << 32) - 1, 1 << 40, 1 << 63, (1 << 64) - 1)


def mutants(file: bytes, head: int, seed: int, count: int) -> Iterator[bytes]:
    """`count` mutants, the same for the same seed. `head`: bytes of `file` before its tensors' bytes."""
    for number in range(count):
        chance = random.Random(f"{seed} {number}")
        changed = bytearray(file)
        for _ in range(chance.choice((1, 1, 1, 2, 4))):
            chance.choice(_CHANGES)(changed, min(head, len(changed)), chance)
        yield bytes(changed)


def _byte(file: bytearray, head: int, chance: random.Random) -> None:
    file[chance.randrange(head)] = chance.randrange(256)


def _bit(file: bytearray, head: int, chance: random.Random) -> None:
    file[chance.randrange(head)] ^= 1 << chance.randrange(8)


def _number(file: bytearray, head: int, chance: random.Random) -> None:
    """A count, length, type, dimension or offset, wherever one may be."""
    form, size = chance.choice((("<I", 4), ("<Q", 8)))
    at = chance.randrange(head - size)
    (now,) = struct.unpack_from(form, file, at)
    near = chance.choice((now + 1, now - 1, now * 2, *EDGES, *EDGES))
    struct.pack_into(form, file, at, near % (1 << 8 * size))


def _count(file: bytearray, head: int, chance: random.Random) -> None:
    """The version, or the number of tensors or entries."""
    form, at = chance.choice((("<I", 4), ("<Q", 8), ("<Q", 16)))
    (now,) = struct.unpack_from(form, file, at)
    struct.pack_into(form, file, at, chance.choice((now + 1, now - 1, *EDGES)) % (1 << 8 * struct.calcsize(form)))


def _region(file: bytearray, head: int, chance: random.Random) -> None:
    """A region over another of the same length, which repeats keys and names."""
    length = chance.choice((4, 8, 16, 64))
    to, source = chance.randrange(head - length), chance.randrange(head - length)
    file[to : to + length] = file[source : source + length]


def _cut(file: bytearray, head: int, chance: random.Random) -> None:
    # Enough is left for the other changes.
    del file[chance.randrange(min(256, head), len(file)) :]


def _longer(file: bytearray, head: int, chance: random.Random) -> None:
    at, length = chance.randrange(head), chance.choice((1, 4, 8, 32))
    file[at:at] = chance.randbytes(length)


_CHANGES: tuple[Callable[[bytearray, int, random.Random], None], ...] = (
    *(_byte, _byte, _bit, _number, _number, _number),
    *(_count, _region, _cut, _longer),
)
